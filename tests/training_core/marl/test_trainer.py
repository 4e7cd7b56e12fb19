"""The trainer as its callers know it: it learns, keeps sides apart, and goes on from a checkpoint as if nothing had been."""

from functools import partial

import numpy as np
import pytest
import torch

from tests.training_core.marl.hints import Hints, config, policy, two_sides
from training_core.errors import CheckpointError, ConfigError
from training_core.marl.agent_slots import slots_by_policy
from training_core.marl.learning.learner import training_rewards
from training_core.marl.trainer import MarlTrainer

METRICS = {
    "actor_loss", "value_loss", "entropy", "kl", "clip_fraction", "ratio_mean", "ratio_std", "ratio_max",
    "explained_variance", "grad_norm", "critic_grad_norm", "lr", "epochs",
}  # fmt: skip


def trainer(settings, **kind):
    return MarlTrainer(settings, lambda section, count: Hints(count, **kind))


def trained(settings, iterations, **kind):
    made = trainer(settings, **kind)
    metrics = []
    for iteration in range(1, iterations + 1):
        made.collect(iteration)
        metrics.append(made.update(iteration))
    return made, metrics


def mean_return(collection, role="agents"):
    return float(np.mean([episode.rewards[role] for episode in collection.episodes]))


@pytest.mark.parametrize("algorithm", ["mappo", "ippo"])
@pytest.mark.parametrize("shared", [True, False])
def test_it_learns_what_is_rewarded(algorithm, shared):
    settings = config(algorithm={"type": algorithm}, policies={"one": policy(share_parameters=shared)})
    made, metrics = trained(settings, 30, staggered=False)
    # two agents, worth 1 and 2 a step, 4 steps: at most 12; a guess earns 4
    assert mean_return(made.evaluate(True, 16)) == 12.0
    assert mean_return(made.evaluate(False, 16)) > 9.0
    assert set(metrics[0]["one"]) == METRICS
    assert metrics[0]["one"]["ratio_mean"] == pytest.approx(1.0, abs=0.05)
    assert metrics[-1]["one"]["entropy"] < metrics[0]["one"]["entropy"]


@pytest.mark.extended
def test_it_learns_continuous_actions():
    made, _ = trained(config(), 40, continuous=True)
    # the second number should be the hint: 0, 1 or 2 of 0 to 4; the middle, 2, costs 1 a step and worth on average
    assert mean_return(made.evaluate(True, 32)) > -3.0
    sent = made.learners["one"].head.actions(torch.tensor([[[9.0, 9.0]]])).numpy()
    assert sent == pytest.approx(np.array([[[1.0, 4.0]]]))


@pytest.mark.extended
@pytest.mark.parametrize("algorithm", ["mappo", "ippo"])
def test_an_entropy_bonus_keeps_continuous_actions_spread_out(algorithm):
    """A strong one: entropy ends near its most, log 2 + log 4, with standard deviations in mid-range and not at their bound."""
    settings = config(algorithm={"type": algorithm, "entropy_coefficient": 3.0})
    made, metrics = trained(settings, 30, continuous=True)
    assert metrics[-1]["one"]["entropy"] == pytest.approx(np.log(8), abs=0.15)
    made.collect(31)
    _, log_std = made._rollout.trajectories["one"].outs.chunk(2, -1)
    assert float(log_std.min()) > -1.5 and float(log_std.max()) < 0.75


@pytest.mark.extended
def test_a_central_critic_values_each_agent_with_individual_rewards():
    """Agents of one role earn 1 and 2 where they are right: their values must differ, as a team's do not."""
    for reward, columns in (("agent", 2), ("team_sum", 1)):
        settings = config(environment={"type": "toy_simple_spread", "reward": reward})
        made, _ = trained(settings, 15, staggered=False)
        made.collect(16)
        chunks, explained = made.learners["one"]._prepare(made._rollout)
        assert chunks.returns.shape[-1] == columns and explained > 0.5
    own, _ = trained(config(), 15, staggered=False)
    own.collect(16)
    chunks, _ = own.learners["one"]._prepare(own._rollout)
    values = own.learners["one"].scale.denormalise(chunks.old_values).flatten(0, 1)
    first = chunks.begins.flatten()
    assert float(values[first, 1].mean()) > 1.5 * float(values[first, 0].mean()) > 0


@pytest.mark.extended
@pytest.mark.parametrize("network", [{}, {"type": "gru", "recurrent_hidden_dim": 16, "chunk_length": 4}])
def test_it_learns_a_choice_from_each_of_several_sets(network):
    environments = []

    def make(section, count):
        environments.append(Hints(count, several=True, masked=True, staggered=False))
        return environments[-1]

    made = MarlTrainer(config(policies={"one": policy(**network)}), make)
    for iteration in range(1, 31):
        made.collect(iteration)
        metrics = made.update(iteration)["one"]
        assert metrics["ratio_mean"] == pytest.approx(1.0, abs=0.05)
    # hints 1 and 2: at most 12; 6 by guessing, 9 by one set alone
    found = made.evaluate(True, 16, recorded=1)
    assert mean_return(found) > 11.0
    sent = np.concatenate([step["agents"].reshape(-1, 2) for one in environments for step in one.sent])
    assert set(sent[:, 0].tolist()) == {1, 2} and set(sent[:, 1].tolist()) == {0, 1}
    assert set(found.recordings[0].recorded_steps[0].actions.values()) <= {"1 1", "2 0"}


def test_forbidden_choices_are_never_sent():
    environments = []

    def make(section, count):
        environments.append(Hints(count, masked=True))
        return environments[-1]

    made = MarlTrainer(config(), make)
    made.collect(1)
    made.update(1)
    made.evaluate(False, 8)
    sent = np.concatenate([step["agents"].ravel() for made in environments for step in made.sent])
    assert set(sent.tolist()) == {1, 2}


def value_of(critic, seen, agent):
    return float(critic.step(seen, ())[0][0, agent, 0])


def test_truncated_episodes_bootstrap_and_terminated_ones_do_not():
    """By a loop over environments and steps that reads the critic state by state."""
    for terminates in (False, True):
        made = trainer(
            config(algorithm={"type": "ippo"}, rollout={"environments": 3, "steps": 6}), terminates=terminates
        )
        made.collect(1)
        learner, rollout = made.learners["one"], made._rollout
        trajectory = rollout.trajectories["one"]
        chunks, _ = learner._prepare(rollout)
        value = partial(value_of, learner.critic)
        raw_returns = learner.scale.denormalise(chunks.returns)[:, 0].unflatten(0, (6, 3))
        learner.scale = type(learner.scale)()
        with torch.no_grad():
            fresh = trainer(made.config, terminates=terminates).learners["one"]
            learner.critic.load_state_dict(fresh.critic.state_dict())
            for place in range(3):
                for agent in range(2):
                    running = None
                    for t in reversed(range(6)):
                        ended = bool(rollout.terminated[t, place] or rollout.truncated[t, place])
                        last = [e for e in rollout.final_states if e.step == t and place in e.rows.tolist()]
                        if last:
                            at = last[0].rows.tolist().index(place)
                            follows = value(last[0].observations["one"][at : at + 1], agent)
                        else:
                            follows = value(trajectory.observations[t + 1, place : place + 1], agent)
                        if rollout.terminated[t, place]:
                            follows = 0.0
                        here = value(trajectory.observations[t, place : place + 1], agent)
                        delta = float(trajectory.rewards[t, place, agent]) + 0.99 * follows - here
                        running = delta + (0.0 if ended or running is None else 0.99 * 0.95 * running)
                        assert float(raw_returns[t, place, agent]) == pytest.approx(running + here, abs=1e-4)
        assert rollout.truncated.any() != terminates


def test_rewards_of_sides_are_never_added():
    settings = two_sides(rollout={"environments": 4, "steps": 4})
    made = trainer(settings, sides={"adversaries": 3, "good": 1})
    made.collect(1)
    bad, kind = made._rollout.trajectories["bad"], made._rollout.trajectories["kind"]
    assert bad.rewards.shape == (4, 4, 3) and kind.rewards.shape == (4, 4, 1)
    slots = made.learners["bad"].slots
    team = training_rewards(bad.rewards, slots, "team_sum")
    assert torch.equal(team, bad.rewards.sum(-1, keepdim=True).expand(4, 4, 3))
    assert torch.equal(training_rewards(bad.rewards, slots, "team_mean") * 3, team)
    assert torch.equal(training_rewards(bad.rewards, slots, "agent"), bad.rewards)
    assert set(made.update(1)) == {"bad", "kind"}


def test_roles_behind_one_policy_have_rewards_and_values_of_their_own():
    roles = {"adversaries": {"policy": "one"}, "good": {"policy": "one"}}
    settings = two_sides(team={"roles": roles}, policies={"one": policy()})
    made = trainer(settings, sides={"adversaries": 2, "good": 1})
    slots = made.learners["one"].slots
    rewards = torch.tensor([[[1.0, 2.0, 5.0]]])
    assert training_rewards(rewards, slots, "team_sum").tolist() == [[[3.0, 3.0, 5.0]]]
    assert made.learners["one"].critic_inputs.by_agent(torch.tensor([7.0, 9.0])).tolist() == [7.0, 7.0, 9.0]
    assert made.learners["one"].critic_inputs.by_column(torch.tensor([1.0, 3.0, 9.0])).tolist() == [2.0, 9.0]
    made.collect(1)
    assert set(made.update(1)) == {"one"}


def test_a_frozen_role_stays_as_it_is():
    roles = {"adversaries": {"policy": "bad"}, "good": {"policy": "kind", "trained": False}}
    made = trainer(two_sides(team={"roles": roles}), sides={"adversaries": 2, "good": 2})
    before = {name: learner.actor_adam.weights.detach().clone() for name, learner in made.learners.items()}
    made.collect(1)
    assert set(made.update(1)) == {"bad"}
    assert torch.equal(made.learners["kind"].actor_adam.weights, before["kind"])
    assert not torch.equal(made.learners["bad"].actor_adam.weights, before["bad"])


@pytest.mark.parametrize(
    ("algorithm", "inputs"),
    [({"type": "mappo"}, 20), ({"type": "mappo", "critic_sees": "team"}, 12), ({"type": "ippo"}, 4)],
)
def test_what_critics_see(algorithm, inputs):
    made = trainer(two_sides(algorithm=algorithm), sides={"adversaries": 3, "good": 2})
    assert made.learners["bad"].critic_inputs.inputs == inputs
    made.collect(1)
    made.update(1)


def test_an_environments_own_state_goes_before_the_joint_observation():
    made = trainer(config(), state=True)
    assert made.learners["one"].critic_inputs.inputs == 2
    made.collect(1)
    made.update(1)


def test_agents_are_told_apart_only_by_their_identity():
    seen = torch.zeros(1, 2, 4)
    for identity, shared, apart in ((4, True, True), (0, True, False), (0, False, True)):
        made = trainer(config(policies={"one": policy(identity_dim=identity, share_parameters=shared)}))
        out, _ = made.learners["one"].actor.step(seen + 1, ())
        assert (not torch.allclose(out[0, 0], out[0, 1])) == apart


def test_a_resumed_run_draws_the_same_curve(tmp_path):
    settings = config(
        algorithm={"type": "mappo", "clip_value": True},
        policies={"one": policy() | {"learner": {"schedule": "linear"}}},
    )
    whole, curve = trained(settings, 6)
    half, _ = trained(settings, 3)
    half.save(tmp_path)
    resumed = trainer(settings)
    resumed.load(tmp_path)
    for iteration in range(4, 7):
        resumed.collect(iteration)
        assert resumed.update(iteration) == curve[iteration - 1]
    assert torch.equal(resumed.learners["one"].actor_adam.weights, whole.learners["one"].actor_adam.weights)
    assert resumed.evaluate(False, 8) == whole.evaluate(False, 8)
    assert not list(tmp_path.rglob("*.pt"))


def test_checkpoints_of_others_are_refused(tmp_path):
    made, _ = trained(config(), 1)
    made.save(tmp_path)
    other = trainer(config(policies={"one": policy(hidden_dim=16)}))
    with pytest.raises(CheckpointError, match="does not fit"):
        other.load(tmp_path)
    with pytest.raises(CheckpointError, match="pickle"):
        made.load(tmp_path / "ckpt_100.pt")
    (tmp_path / "one" / "actor.safetensors").unlink()
    with pytest.raises(CheckpointError, match="not complete"):
        made.load(tmp_path)


def test_passes_end_once_the_policy_has_moved_too_far():
    _, free = trained(config(), 1)
    _, held = trained(config(algorithm={"type": "mappo", "target_kl": 1e-9}), 1)
    assert (free[0]["one"]["epochs"], held[0]["one"]["epochs"]) == (4.0, 1.0)


def test_the_learning_rate_falls_in_a_line():
    settings = config(
        run={"iterations": 4},
        policies={"one": policy() | {"learner": {"actor_learning_rate": 0.4, "schedule": "linear"}}},
    )
    _, metrics = trained(settings, 4)
    assert [m["one"]["lr"] for m in metrics] == pytest.approx([0.4, 0.3, 0.2, 0.1])


def test_evaluation_gives_every_environment_its_share_and_keeps_what_is_asked_for():
    made = trainer(config(rollout={"environments": 3, "steps": 4}))
    found = made.evaluate(True, 5, recorded=2)
    assert len(found.episodes) == 5
    assert [recording.index for recording in found.recordings] == [
        0,
        2,
    ]  # environments 0 and 1 play two episodes each
    recording = found.recordings[0]
    assert len(recording.recorded_steps) == recording.result.length == 4
    assert [moment.board["at"] for moment in recording.recorded_steps] == [0, 1, 2, 3]
    roles = {"agents": ("agents_0", "agents_1")}  # for their colours
    assert recording.final_board == {"kind": "plane", "at": 4, "roles": roles}
    assert set(recording.recorded_steps[0].actions) == {"agents_0", "agents_1"}
    assert (
        sum(sum(moment.rewards.values()) for moment in recording.recorded_steps)
        == recording.result.rewards["agents"]
    )
    again = made.evaluate(True, 5, recorded=2)
    assert again == found


def test_episodes_go_on_where_they_were_unless_each_iteration_begins_anew():
    settings = config(rollout={"environments": 2, "steps": 3, "fresh": "never"})
    made = trainer(settings, staggered=False)
    assert [len(made.collect(iteration).episodes) for iteration in (1, 2, 3, 4)] == [0, 2, 2, 2]
    short = {"type": "toy_simple_spread", "max_cycles": 3}
    always = config(rollout={"environments": 2, "steps": 3, "fresh": True}, environment=short)
    fresh = trainer(always, staggered=False)
    assert [len(fresh.collect(iteration).episodes) for iteration in (1, 2)] == [0, 0]


@pytest.mark.extended
def test_every_network_with_memory_learns_and_resumes(tmp_path):
    for kind in ("gru", "lstm", "transformer"):
        network = {
            "type": kind,
            "recurrent_hidden_dim": 16,
            "chunk_length": 5,
            "heads": 4,
            "context_length": 4,
        }
        network = {
            k: v for k, v in network.items() if kind == "transformer" or k not in ("heads", "context_length")
        }
        settings = config(policies={"one": policy(**network)}, rollout={"environments": 8, "steps": 12})
        _, metrics = trained(settings, 4)
        assert metrics[0]["one"]["ratio_mean"] == pytest.approx(1.0, abs=0.05)
        trained(settings, 2)[0].save(tmp_path / kind)
        resumed = trainer(settings)
        resumed.load(tmp_path / kind)
        for iteration in (3, 4):
            resumed.collect(iteration)
            assert resumed.update(iteration) == metrics[iteration - 1]


def test_chunks_of_a_memory_say_what_the_actor_said():
    """Before the first step of an update, replayed chunks have the log-probabilities with which actions were drawn."""
    network = {"type": "gru", "recurrent_hidden_dim": 16, "chunk_length": 5}
    for shared in (True, False):
        made = trainer(config(policies={"one": policy(share_parameters=shared, **network)}))
        made.collect(1)
        learner = made.learners["one"]
        chunks, _ = learner._prepare(made._rollout)
        assert len(chunks) == 3 * 8
        for part in chunks.minibatches(torch.randperm(24), 7):
            out = learner.actor.sequence(part.observations, part.actor_memory, part.begins)
            assert torch.allclose(learner.head.log_prob(out, part.raw)[0], part.log_probs, atol=1e-5)
            values = learner.critic.sequence(part.critic_inputs, part.critic_memory, part.begins)
            assert torch.allclose(learner.critic_inputs.columns(values), part.old_values, atol=1e-4)
        # steps 10 and 11 are new in the last chunk (7 to 11); the others are in the second
        assert chunks.weights[-1, :, 0].tolist() == [0.0, 0.0, 0.0, 1.0, 1.0]


def test_teams_that_do_not_fit_are_explained():
    made = trainer(config())
    with pytest.raises(ConfigError, match="name exactly these roles"):
        slots_by_policy(two_sides(), made.spec)


def test_closing_gives_environments_back():
    environments = []
    make = partial(lambda section, count: environments.append(Hints(count)) or environments[-1])
    made = MarlTrainer(config(), make)
    made.evaluate(True, 4)
    made.close()
    assert [environment.closed for environment in environments] == [True, True]
