"""Agents that leave before their episode ends: what they no longer do is in no statistic and no loss."""

import math
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.training_core.marl.environments.leavers import LIVES, Leavers
from tests.training_core.marl.hints import config, policy
from tests.training_core.marl.test_recurrent import stepped
from training_core.algorithms.gae import explained_variance
from training_core.marl.environments.pettingzoo import AdapterSettings, PettingZooEnvironment
from training_core.marl.environments.sequential import SequentialEnvironments
from training_core.marl.learning.batch import chunk_starts
from training_core.marl.learning.critics import ValueScale
from training_core.marl.rollouts import collect
from training_core.marl.trainer import MarlTrainer

PATH = "tests.training_core.marl.environments.leavers:parallel_env"
STEPS, ENVIRONMENTS, AGENTS, LENGTH = 16, 2, 3, 5
GAMMA, TRACE = 0.9, 0.8
"""Two whole episodes of six steps, and one that is at its step 4 when the rollout ends: a_0 has left it, a_1 leaves with its last step."""

WAYS = list(product(["mappo", "ippo"], ["mlp", "gru", "lstm", "transformer"], [False, True]))


def collected(
    algorithm: str,
    kind: str,
    continuous: bool = False,
    reward: str = "agent",
    cut: tuple[str, ...] = (),
    **settings: Any,
) -> MarlTrainer:
    network = {"type": kind, "hidden_dim": 8, "identity_dim": 2}
    if kind != "mlp":
        network |= {"recurrent_hidden_dim": 8, "chunk_length": LENGTH}
    if kind == "transformer":
        network |= {"context_length": 3}
    args = {"continuous": continuous, "cut": cut}
    made = MarlTrainer(
        config(
            environment={"type": "pettingzoo", "path": PATH, "args": args, "reward": reward, "strict_agents": False},
            algorithm={"type": algorithm, "discount": GAMMA, "gae_lambda": TRACE} | settings,
            policies={"one": policy(**network)},
            rollout={"environments": ENVIRONMENTS, "steps": STEPS},
        )
    )  # fmt: skip
    made.collect(1)
    return made


def lives(t: int, agent: int) -> bool:
    return t % 6 < list(LIVES.values())[agent]


ALIVE = torch.tensor([[[lives(t, n) for n in range(AGENTS)]] * ENVIRONMENTS for t in range(STEPS)])


def naive_values(made: MarlTrainer, environment: int) -> tuple[list[Tensor], dict[int, Tensor]]:
    """V (N,) before every step and at the end, and of the last states of episodes that were cut off, step by step."""
    learner, rollout = made.learners["one"], made._rollout
    assert rollout is not None
    see = learner.critic_inputs.inputs_of
    x = see({"one": rollout.trajectories["one"].observations}, None)[:, environment : environment + 1]
    ends = {
        ending.step: see(ending.observations, None)[ending.rows.tolist().index(environment)]
        for ending in rollout.final_states
        if environment in ending.rows.tolist()
    }
    with torch.no_grad():
        outs, finals, _ = stepped(learner.critic, x, rollout.begins[:, environment], ends)
    each = [learner.critic_inputs.by_agent(learner.critic_inputs.columns(out)) for out in outs]
    return each, {
        t: learner.critic_inputs.by_agent(learner.critic_inputs.columns(out)) for t, out in finals.items()
    }


def naive_own(made: MarlTrainer, environment: int, cut: tuple[int, ...]) -> Tensor:
    """Advantages (T, N) where each agent's own end is a terminal."""
    values, finals = naive_values(made, environment)
    rewards = made._rollout.trajectories["one"].rewards[:, environment]  # type: ignore[union-attr]
    advantages = torch.zeros(STEPS, AGENTS)
    for agent in range(AGENTS):
        running = 0.0
        for t in reversed(range(STEPS)):
            if not lives(t, agent):
                running = 0.0
                continue
            last = t % 6 == list(LIVES.values())[agent] - 1
            follows = float(finals[t][agent]) if t in finals else float(values[t + 1][agent])
            if last:
                running = 0.0
                follows = follows if agent in cut else 0.0
            delta = float(rewards[t, agent]) + GAMMA * follows - float(values[t][agent])
            running = delta + GAMMA * TRACE * running
            advantages[t, agent] = running
    return advantages


def naive_team(made: MarlTrainer, environment: int, cut: bool) -> tuple[Tensor, Tensor]:
    """Advantages and values (T, N) of a team's reward: an agent that has left is valued as those that have not."""
    values, finals = naive_values(made, environment)
    rewards = made._rollout.trajectories["one"].rewards[:, environment].sum(-1)  # type: ignore[union-attr]

    def known(t: int, agent: int, value: Tensor, at: int) -> float:
        """V of an agent, or the mean of those that live at step `at` of the rollout."""
        living = [n for n in range(AGENTS) if lives(at, n)]
        return float(value[agent]) if agent in living else float(value[living].mean())

    advantages, own = torch.zeros(STEPS, AGENTS), torch.zeros(STEPS, AGENTS)
    for agent in range(AGENTS):
        running = 0.0
        for t in reversed(range(STEPS)):
            if t % 6 == 5:
                running = 0.0
                follows = known(t, agent, finals[t], t) if cut else 0.0
            else:
                follows = known(t, agent, values[t + 1], t + 1)
            own[t, agent] = known(t, agent, values[t], t)
            running = float(rewards[t]) + GAMMA * follows - float(own[t, agent]) + GAMMA * TRACE * running
            advantages[t, agent] = running
    return advantages, own


def whole(chunked: Tensor, kind: str) -> Tensor:
    """(G, L, ...) -> (T, B, ...)."""
    if kind == "mlp":
        return chunked[:, 0].unflatten(0, (STEPS, ENVIRONMENTS))
    found = torch.empty(STEPS, ENVIRONMENTS, *chunked.shape[2:], dtype=chunked.dtype)
    for place, start in enumerate(chunk_starts(STEPS, LENGTH)):
        part = chunked[place * ENVIRONMENTS : (place + 1) * ENVIRONMENTS]
        found[start : start + LENGTH] = part.transpose(0, 1)
    return found


@pytest.mark.parametrize(("algorithm", "kind", "continuous"), WAYS)
@pytest.mark.parametrize("cut", [(), (0, 2)])
def test_an_agents_own_end_is_a_terminal_for_its_own_reward(
    algorithm: str, kind: str, continuous: bool, cut: tuple[int, ...]
) -> None:
    names = tuple(list(LIVES)[agent] for agent in cut)
    made = collected(algorithm, kind, continuous, cut=names)
    every = [naive_own(made, place, cut) for place in range(ENVIRONMENTS)]
    check(made, kind, torch.stack(every, 1), None)


@pytest.mark.parametrize(("algorithm", "kind", "continuous"), WAYS)
@pytest.mark.parametrize("cut", [False, True])
def test_a_teams_reward_outlives_single_agents(
    algorithm: str, kind: str, continuous: bool, cut: bool
) -> None:
    made = collected(algorithm, kind, continuous, reward="team_sum", cut=("a_2",) if cut else ())
    every = [naive_team(made, place, cut) for place in range(ENVIRONMENTS)]
    advantages, values = (torch.stack([each[part] for each in every], 1) for part in (0, 1))
    check(made, kind, advantages, values)


def check(made: MarlTrainer, kind: str, advantages: Tensor, values: Tensor | None) -> None:
    """A batch against advantages (T, B, N), of the living alone, and the statistics that follow from them."""
    learner, rollout = made.learners["one"], made._rollout
    assert rollout is not None
    assert torch.equal(rollout.trajectories["one"].alive[:-1], ALIVE)  # type: ignore[index]
    if values is None:
        values = torch.stack([torch.stack(naive_values(made, place)[0][:-1]) for place in range(2)], 1)
    learner._critic_memory = None
    chunks, explained = learner._prepare(rollout)
    living = advantages[ALIVE]
    normal = (advantages - living.mean()) / (living.std(correction=0) + 1e-8)
    torch.testing.assert_close(whole(chunks.advantages, kind)[ALIVE], normal[ALIVE], rtol=1e-3, atol=1e-4)
    found = whole(chunks.advantages, kind)[ALIVE]
    assert (float(found.mean()), float(found.std(correction=0))) == pytest.approx((0.0, 1.0), abs=1e-4)
    returns = advantages + values
    assert chunks.weights is not None and chunks.value_weights is not None
    if learner.critic_inputs.per_role:  # one value, of a team some of which is always there
        counted, valued = returns[..., 2:], values[..., 2:]
        assert float(chunks.value_weights.sum()) == STEPS * ENVIRONMENTS
    else:
        counted, valued = returns[ALIVE], values[ALIVE]
    scale = ValueScale()
    scale.update(counted, [])
    assert (learner.scale.mean, learner.scale.std) == pytest.approx((scale.mean, scale.std), rel=1e-3)
    assert explained == pytest.approx(explained_variance(valued, counted), abs=1e-3)
    assert float(chunks.weights.sum()) == float(ALIVE.sum())
    if kind == "mlp":
        assert torch.equal(whole(chunks.weights, kind) > 0, ALIVE)


@pytest.mark.parametrize(("algorithm", "kind", "continuous"), WAYS)
def test_what_agents_that_left_did_moves_nothing(algorithm: str, kind: str, continuous: bool) -> None:
    found = []
    for other in (False, True):
        made = collected(algorithm, kind, continuous)
        assert made._rollout is not None
        trajectory = made._rollout.trajectories["one"]
        if other and continuous:
            trajectory.raw[~ALIVE] += 40.0
        elif other:
            trajectory.raw[~ALIVE] = 2
        metrics = made.update(1)["one"]
        assert all(math.isfinite(value) for value in metrics.values())
        learner = made.learners["one"]
        weights = torch.cat([learner.actor_adam.weights, learner.critic_adam.weights]).detach().clone()
        found.append((weights, metrics))
    assert torch.equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]


def test_ends_are_told_though_every_environment_failed_in_some_steps() -> None:
    """Step 2 of every episode raises: a_0 terminates with step 1, and nothing is known of step 2."""
    made = collected("ippo", "mlp")
    runner = made._runner
    runner.environment.close()
    runner.environment = SequentialEnvironments(lambda: Breaking(Leavers()), ENVIRONMENTS, "breaking")
    runner.reset(0)
    noise = {"one": torch.zeros(6, ENVIRONMENTS, AGENTS, 3)}
    rollout, _ = collect(runner, 6, noise, {"one": ()})
    told = rollout.trajectories["one"].terminated
    assert told is not None and rollout.failed[:, 0].tolist() == [False, False, True] * 2
    assert told[:, 0].tolist() == [[False] * 3, [True, False, False], [False] * 3] * 2


class Breaking(PettingZooEnvironment):
    """Raises in step 2 of every episode."""

    def __init__(self, environment: Leavers) -> None:
        super().__init__(environment, AdapterSettings(strict_agents=False))
        self._inner = environment

    def step(self, actions: Any) -> Any:
        if self._inner._step == 2:
            raise RuntimeError("the physics blew up")
        return super().step(actions)


def test_entropy_and_kl_are_those_of_the_agents_that_take_part() -> None:
    made = collected("ippo", "mlp")
    learner = made.learners["one"]
    for adam in (learner.actor_adam, learner.critic_adam):
        adam.set_learning_rate = lambda rate: None  # type: ignore[method-assign]
    metrics = made.update(1)["one"]
    assert metrics["entropy"] == pytest.approx(math.log(3), abs=1e-2)  # choices are about equally likely
    assert (metrics["ratio_mean"], metrics["kl"]) == pytest.approx((1.0, 0.0), abs=1e-5)


def test_padded_numbers_of_narrower_agents_count_nowhere() -> None:
    """Agents have 1, 2 and 3 numbers: each one's density and entropy are those of its own numbers."""
    made = collected("ippo", "mlp", continuous=True)
    learner = made.learners["one"]
    assert learner.slots.widths == (1, 2, 3)
    out, raw = torch.randn(4, 3, 6), torch.randn(4, 3, 3)
    density, entropy = learner.head.log_prob(out, raw)
    for agent, width in enumerate((1, 2, 3)):
        own = torch.cat([out[:, agent, :width], out[:, agent, 3 : 3 + width]], -1)
        alone = type(learner.head)(type(learner.slots.actions)((-1.0,) * width, (1.0,) * width))  # type: ignore[call-arg]
        expected = alone.log_prob(own, raw[:, agent, :width])
        torch.testing.assert_close(density[:, agent], expected[0])
        torch.testing.assert_close(entropy[:, agent], expected[1])


def test_a_minibatch_without_living_agents_changes_nothing() -> None:
    made = collected("ippo", "mlp")
    learner, rollout = made.learners["one"], made._rollout
    assert rollout is not None
    chunks, _ = learner._prepare(rollout)
    learner._optimise(next(iter(chunks.minibatches(torch.arange(4), 4))))
    before = learner.actor_adam.weights.detach().clone()
    part = next(iter(chunks.minibatches(torch.arange(4), 4)))
    part.weights = torch.zeros_like(part.weights)  # type: ignore[arg-type]
    assert not learner._optimise(part).any()
    assert torch.equal(learner.actor_adam.weights, before)
