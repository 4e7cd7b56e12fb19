"""What is learnt from a rollout in which an environment failed: all but the step in which it did, whose state follows the one before."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.training_core.marl.environments.test_failures import FRAGILE
from tests.training_core.marl.hints import config, policy
from training_core.errors import EnvironmentFailure
from training_core.marl.environments.base import Failure
from training_core.marl.environments.episodes import episode_seeds
from training_core.marl.evaluation import EVALUATION
from training_core.marl.learning.critics import ValueScale
from training_core.marl.records import EpisodeResult
from training_core.marl.trainer import COLLECTION, FailureLimit, MarlTrainer
from training_core.seeding import keyed_seed

STEPS, ENVIRONMENTS = 6, 3


def seed_of(number: int, episode: int) -> int:
    """Of an episode of the first iteration."""
    seed = keyed_seed(0, COLLECTION, 1, 0) % 2**31
    return int(episode_seeds(seed, np.array([number]), np.array([episode]))[0])


def trainer(every: int, network: dict[str, Any]) -> MarlTrainer:
    return MarlTrainer(
        config(
            environment={"type": "custom_marl", "path": FRAGILE, "args": {"every": every}, "reward": "agent"},
            algorithm={"type": "ippo"},
            policies={"one": policy(**network)},
            rollout={"environments": ENVIRONMENTS, "steps": STEPS, "fresh": "always"},
        )
    )


def collected(every: int, network: dict[str, Any]) -> MarlTrainer:
    made = trainer(every, network)
    made.collect(1)
    return made


def test_the_batch_is_what_a_loop_over_states_says() -> None:
    """Environment 1 fails in its step 2. Its steps 0 and 1 bootstrap from the state of step 2, which is not learnt from."""
    made = collected(seed_of(1, 0), {})
    learner, rollout = made.learners["one"], made._rollout
    assert rollout is not None
    assert rollout.failed.nonzero().tolist() == [[2, 1]]
    chunks, explained = learner._prepare(rollout)
    trajectory, gamma, trace = rollout.trajectories["one"], 0.99, 0.95
    fresh = collected(seed_of(1, 0), {}).learners["one"].critic
    with torch.no_grad():
        values = fresh.sequence(trajectory.observations, (), rollout.begins)[..., 0]  # (T + 1, B, N)
        last = {
            (ending.step, row): fresh.step(seen[None], ())[0][0, :, 0]
            for ending in rollout.final_states
            for row, seen in zip(ending.rows.tolist(), ending.observations["one"], strict=True)
        }
    expected = torch.zeros(STEPS, ENVIRONMENTS, 2)
    for place in range(ENVIRONMENTS):
        running = torch.zeros(2)
        for t in reversed(range(STEPS)):
            if (t, place) == (2, 1):
                running = torch.zeros(2)
                continue
            cut = bool(rollout.truncated[t, place])
            follows = last[t, place] if cut else values[t + 1, place]
            delta = trajectory.rewards[t, place] + gamma * follows - values[t, place]
            running = delta + (0.0 if cut else gamma * trace) * running
            expected[t, place] = running
    known = torch.ones(STEPS, ENVIRONMENTS, dtype=torch.bool)
    known[2, 1] = False
    normal = (expected - expected[known].mean()) / (expected[known].std(correction=0) + 1e-8)
    found = chunks.advantages.reshape(STEPS, ENVIRONMENTS, 2)
    assert torch.allclose(found[known], normal[known], atol=1e-4)
    returns = (expected + values[:-1])[known]
    scale = ValueScale()
    scale.update(returns, [])
    assert (learner.scale.mean, learner.scale.std) == pytest.approx((scale.mean, scale.std), rel=1e-4)
    assert np.isfinite(explained)
    assert chunks.weights is not None and chunks.value_weights is not None
    assert torch.equal(chunks.weights.reshape(STEPS, ENVIRONMENTS, 2)[..., 0] > 0, known)
    assert torch.equal(chunks.value_weights.reshape(STEPS, ENVIRONMENTS, 2)[..., 1] > 0, known)


def test_what_was_done_in_the_step_that_failed_moves_nothing() -> None:
    """Another action in its place, and another reward: the update is the same. Not so in the step before."""
    for network in ({}, {"type": "gru", "recurrent_hidden_dim": 16, "chunk_length": 4}):
        weights = {}
        for step in (None, 1, 2):
            made = collected(seed_of(1, 0), network)
            rollout = made._rollout
            assert rollout is not None
            trajectory = rollout.trajectories["one"]
            if step is not None:
                trajectory.raw[step, 1] = 1 - trajectory.raw[step, 1]
                trajectory.rewards[step, 1] = 99.0
            metrics = made.update(1)["one"]
            assert all(np.isfinite(value) for value in metrics.values())
            weights[step] = made.learners["one"].actor_adam.weights.detach().clone()
        assert torch.allclose(weights[2], weights[None], atol=1e-4)
        assert not torch.allclose(weights[1], weights[None], atol=1e-3)


def test_failed_episodes_are_told_with_what_they_earned_before() -> None:
    made = collected(seed_of(1, 0), {})
    played = made.collect(1).episodes
    (failed,) = [episode for episode in played if episode.failure is not None]
    assert (failed.rewards, failed.length, failed.truncated) == ({"agents": 1.0 + 2.0}, 3, True)
    assert sorted(episode.rewards["agents"] for episode in played) == [3.0, 10.0, 10.0]


def test_nothing_but_failures_ends_the_run_and_says_what_to_do() -> None:
    with pytest.raises(EnvironmentFailure, match="every environment failed, and no episode finished") as told:
        collected(1, {})
    assert "The first: environment 0," in str(told.value) and "blew up. Fix the environment" in str(
        told.value
    )


def test_few_environments_that_all_fail_once_are_borne_for_a_while() -> None:
    failed = [EpisodeResult({"agents": 0.0}, 3, True, failure=Failure("environment 0, step: no more"))]
    lost = [EpisodeResult({"agents": 0.0}, 3, True, failure=Failure("environment-0 died", lost=True))]
    ended = [EpisodeResult({"agents": 1.0}, 4, False)]
    rollout = collected(seed_of(1, 0), {})._rollout
    assert rollout is not None
    rollout.failed[0] = True
    limit = FailureLimit()
    for played in (lost, ended + failed, failed, failed, lost, ended, failed, failed):
        limit.record(rollout, played)
    rollout.failed[:, 0] = False  # one that is still in its episode
    limit.record(rollout, failed)
    rollout.failed[0] = True
    with pytest.raises(EnvironmentFailure, match=r"The first: environment 0, step: no more\. Fix"):
        limit.record(rollout, failed)


def test_environments_that_fail_in_turn_and_never_end_are_given_up() -> None:
    """One of three in each iteration: (3 + 1) x 3 failures without the end of an episode are too many."""
    failed = [EpisodeResult({"agents": 0.0}, 3, True, failure=Failure("environment 0, step: no more"))]
    ended = [EpisodeResult({"agents": 1.0}, 4, False)]
    rollout = collected(seed_of(1, 0), {})._rollout
    assert rollout is not None and rollout.failed.shape[1] == 3
    rollout.failed[:] = False
    rollout.failed[0, 0] = True
    limit = FailureLimit()
    for played in [failed] * 11 + [ended] + [failed] * 11:
        limit.record(rollout, played)
    with pytest.raises(EnvironmentFailure, match="environments failed 12 times, and no episode finished"):
        limit.record(rollout, failed)


def test_evaluations_tell_failed_episodes_and_go_on() -> None:
    found = trainer(2, {}).evaluate(True, 6, recorded=3)
    seed = keyed_seed(0, EVALUATION, 0) % 2**31
    seeds = [episode_seeds(seed, np.full(2, place), np.arange(2)) for place in range(ENVIRONMENTS)]
    expected = [int(own) % 2 == 0 for pair in seeds for own in pair]
    assert [episode.failure is not None for episode in found.episodes] == expected
    assert True in expected and False in expected
    for recording in found.recordings:
        assert len(recording.recorded_steps) == (3 if recording.result.failure else 4)
        assert np.isfinite(recording.recorded_steps[-1].rewards["agent_0"])
