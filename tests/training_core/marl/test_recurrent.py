"""Learning with memory: one chunked update against a loop over environments and steps, and a task that needs it."""

import copy
from functools import partial

import pytest
import torch
from torch import Tensor

from tests.benchmarks.marl_memory import config_of, learn
from tests.training_core.marl.hints import Hints, config, policy
from training_core.marl.learning.batch import chunk_starts
from training_core.marl.learning.learner import PolicyLearner
from training_core.marl.networks.agents import Networks
from training_core.marl.networks.base import Memory
from training_core.marl.rollouts import Rollout
from training_core.marl.trainer import MarlTrainer

STEPS, LENGTH, ENVIRONMENTS, AGENTS = 12, 5, 4, 2
"""Chunks begin at 0, 5 and 7: the last one has three steps that are learnt from in the one before."""


def played(kind: str, algorithm: str, terminates: bool = False) -> tuple[PolicyLearner, Rollout]:
    """A learner and a rollout in which episodes of four steps end at different times."""
    network = {"type": kind, "hidden_dim": 8, "identity_dim": 2}
    if kind != "mlp":
        network |= {"recurrent_hidden_dim": 8, "recurrent_layers": 2, "chunk_length": LENGTH}
    if kind == "transformer":
        network |= {"context_length": 3}
    settings = config(
        policies={"one": policy(**network)},
        algorithm={"type": algorithm, "normalise_values": False, "discount": 0.9},
        rollout={"environments": ENVIRONMENTS, "steps": STEPS},
    )
    trainer = MarlTrainer(settings, lambda section, count: Hints(count, terminates=terminates))
    trainer.collect(1)
    assert trainer._rollout is not None
    return trainer.learners["one"], trainer._rollout


def stepped(
    network: Networks, x: Tensor, begins: Tensor, ends: dict[int, Tensor]
) -> tuple[list[Tensor], dict[int, Tensor], list[Memory]]:
    """One environment step by step: outputs for x (T, 1, M, C), those for the last states in `ends` by step, memories before steps."""
    memory, outs, finals, memories = network.start(1), [], {}, []
    for t in range(len(x)):
        memory = network.start(1) if begins[t] else memory
        memories.append(memory)
        out, memory = network.step(x[t], memory)
        outs.append(out[0])
        if t in ends:
            finals[t] = network.step(ends[t][None], memory)[0][0]
    return outs, finals, memories


def naive_gains(
    learner: PolicyLearner, rollout: Rollout, environment: int
) -> tuple[Tensor, Tensor, list[Memory]]:
    """Advantages (T, N) and values (T, N) of one environment, and the critic's memories before each step."""
    trajectory = rollout.trajectories["one"]
    see = partial(learner.critic_inputs.inputs_of, state=None)
    x = see({"one": trajectory.observations})[:, environment : environment + 1]
    begins = rollout.begins[:, environment]
    ends = {
        ending.step: see(ending.observations)[place]
        for ending in rollout.final_states
        for place, row in enumerate(ending.rows.tolist())
        if row == environment
    }
    with torch.no_grad():
        outs, finals, memories = stepped(learner.critic, x, begins, ends)
    per_agent = [learner.critic_inputs.by_agent(learner.critic_inputs.columns(out)) for out in outs]
    lasts = {
        t: learner.critic_inputs.by_agent(learner.critic_inputs.columns(out)) for t, out in finals.items()
    }
    advantages, running = [], torch.zeros(AGENTS)
    for t in reversed(range(STEPS)):
        over, cut = bool(rollout.terminated[t, environment]), bool(rollout.truncated[t, environment])
        after = torch.zeros(AGENTS) if over else lasts[t] if cut else per_agent[t + 1]
        delta = trajectory.rewards[t, environment] + 0.9 * after - per_agent[t]
        running = delta + (0.0 if over or cut else 0.9 * 0.95) * running
        advantages.insert(0, running)
    return torch.stack(advantages), torch.stack(per_agent[:-1]), memories


def through(network: Networks, kind: str, x: Tensor, memory: Memory, begins: Tensor) -> Tensor:
    """A chunk of one environment with gradients; a transformer's steps have none in what they remember, see its own tests."""
    if kind == "transformer":
        return network.sequence(x, memory, begins[:, None])[:, 0]
    outs = []
    for t in range(len(x)):
        memory = network.start(1) if begins[t] else memory
        out, memory = network.step(x[t], memory)
        outs.append(out[0])
    return torch.stack(outs)


@pytest.mark.parametrize("kind", ["gru", "lstm", "transformer"])
@pytest.mark.parametrize("algorithm", ["mappo", "ippo"])
@pytest.mark.parametrize("terminates", [False, True])
def test_a_chunked_update_equals_a_loop(kind: str, algorithm: str, terminates: bool) -> None:
    learner, rollout = played(kind, algorithm, terminates)
    trajectory = rollout.trajectories["one"]
    every = [naive_gains(learner, rollout, place) for place in range(ENVIRONMENTS)]
    advantages = torch.stack([each[0] for each in every], 1)
    scaled = (advantages - advantages.mean()) / (advantages.std(correction=0) + 1e-8)
    with torch.no_grad():
        kept = [
            stepped(
                learner.actor, trajectory.observations[:-1, place : place + 1], rollout.begins[:, place], {}
            )[2]
            for place in range(ENVIRONMENTS)
        ]
    chunks, _ = learner._prepare(rollout)
    torch.manual_seed(0)
    for parameter in [*learner.actor.parameters(), *learner.critic.parameters()]:
        parameter.data += 0.1 * torch.randn_like(parameter)  # as after a few steps: ratios are not 1
    naive = copy.deepcopy((learner.actor, learner.critic))
    actor, critic = naive
    for parameter in [*actor.parameters(), *critic.parameters()]:
        parameter.grad = None
    total = torch.zeros(())
    for place in range(ENVIRONMENTS):
        learnt = 0
        for start in chunk_starts(STEPS, LENGTH):
            here = slice(start, start + LENGTH)
            begins = rollout.begins[here, place]
            seen = trajectory.observations[here, place : place + 1]
            outs = through(actor, kind, seen, kept[place][start], begins)
            inputs = learner.critic_inputs.inputs_of({"one": trajectory.observations}, None)[
                here, place : place + 1
            ]
            values = through(critic, kind, inputs, every[place][2][start], begins)
            for step in range(LENGTH):
                t = start + step
                if t < learnt:
                    continue
                now, entropy = learner.head.log_prob(outs[step], trajectory.raw[t, place])
                then, _ = learner.head.log_prob(trajectory.outs[t, place], trajectory.raw[t, place])
                ratio = (now - then).exp()
                gain = scaled[t, place]
                worth = torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
                value = learner.critic_inputs.by_agent(learner.critic_inputs.columns(values[step]))
                error = (value - advantages[t, place] - every[place][1][t]).square().mean()
                total = total + (-worth - 0.01 * entropy).mean() + 0.5 * error
            learnt = start + LENGTH
    total = total / (STEPS * ENVIRONMENTS)
    whole = next(iter(chunks.minibatches(torch.randperm(len(chunks)), len(chunks))))
    learner.actor_adam.zero_gradients()
    learner.critic_adam.zero_gradients()
    loss, _ = learner.losses(whole)
    torch.testing.assert_close(loss, total, rtol=1e-4, atol=1e-5)
    loss.backward()
    total.backward()
    for network, other in ((learner.actor, actor), (learner.critic, critic)):
        for one, two in zip(network.parameters(), other.parameters(), strict=True):
            assert one.grad is not None and two.grad is not None
            torch.testing.assert_close(one.grad, two.grad, rtol=1e-3, atol=1e-5)


def test_a_network_without_memory_learns_the_same_from_chunks() -> None:
    learner, rollout = played("mlp", "mappo")
    gradients = []
    for length in (1, LENGTH):
        learner.length = length
        chunks, _ = learner._prepare(rollout)
        whole = next(iter(chunks.minibatches(torch.arange(len(chunks)), len(chunks))))
        learner.actor_adam.zero_gradients()
        learner.critic_adam.zero_gradients()
        loss, _ = learner.losses(whole)
        loss.backward()
        gradients.append(
            torch.cat([learner.actor_adam.gradients, learner.critic_adam.gradients, loss.detach()[None]])
        )
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-6)
    assert gradients[0].abs().max() > 0


@pytest.mark.extended
@pytest.mark.parametrize(
    ("network", "algorithm", "seed"),
    [
        ("gru", "mappo", 1),
        pytest.param("lstm", "ippo", 0, marks=pytest.mark.soak),
        pytest.param("transformer", "mappo", 0, marks=pytest.mark.soak),
    ],
)
def test_memory_solves_what_needs_it(network: str, algorithm: str, seed: int) -> None:
    shares, _ = learn(config_of(network, algorithm, seed))
    assert shares[-1][1] >= 0.95


@pytest.mark.extended
def test_without_memory_nothing_beats_a_guess() -> None:
    shares, _ = learn(config_of("mlp", "mappo", seed=0))
    assert max(share for _, share in shares) < 0.4
