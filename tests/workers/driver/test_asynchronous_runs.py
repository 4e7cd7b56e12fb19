"""The asynchronous loop over actors: generation during updates, new weights in mid-sequence, workers that die."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.workers.running import curve, events, small_config
from workers.driver.attempt import run_attempt
from workers.protocol import Attempt

pytestmark = pytest.mark.ray

APART: dict[str, Any] = {
    "policies__planner__devices__placement": "apart",
    "policies__executor__devices__placement": "apart",
    "policies__planner__devices__rollout_cpus": 0.1,
    "policies__executor__devices__rollout_cpus": 0.1,
}


def overlaps(folder: Path, attempt: int = 1) -> bool:
    """Whether a rollout worker generated while an update worker learnt."""
    spans = [(event["phase"], event["start"], event["end"]) for event in events(folder, "phase", attempt)]
    rollouts = [span for span in spans if span[0] == "rollout"]
    updates = [span for span in spans if span[0] == "update"]
    return any(one[1] < two[2] and two[1] < one[2] for one in rollouts for two in updates)


def test_generation_continues_during_updates(ray_cluster: None, little_model: Path, tmp_path: Path) -> None:
    config = small_config(
        little_model,
        **APART,
        run__iterations=8,
        evaluation__every=0,
        rollout__group_size=32,
        policies__planner__learner__epochs=4,
        policies__executor__learner__epochs=4,
        rollout__staleness=2,
        rollout__wave=2,
        resources__environment_workers=2,
    )
    assert run_attempt(Attempt(config, "ahead", 1, tmp_path, tmp_path), local=False) == 0
    assert events(tmp_path, "status")[-1]["state"] == "finished"
    assert overlaps(tmp_path)
    staleness = [value for (name, _), value in curve(tmp_path).items() if name == "rollout/staleness"]
    assert len(staleness) == 8 and 0 < max(staleness) <= 2


@pytest.mark.extended
def test_an_actor_loads_new_weights_in_mid_sequence(
    ray_cluster: None, little_model: Path, tmp_path: Path
) -> None:
    import ray

    from training_core.llm.generation.base import SamplingSettings
    from training_core.types import NoiseKey, Prompt
    from workers.actors.members import CONTROL, Spawner
    from workers.sizing.placement import place

    config = small_config(little_model, **APART, rollout__staleness=100)
    spawner = Spawner(config, tmp_path, "interrupted", None)
    placement = place(config)
    updater = spawner.member(placement.of("update", "planner")[0]).handle
    worker = spawner.member(placement.of("rollout", "planner")[0]).handle
    ray.get([updater.start.remote(None), worker.start.remote(None)])
    prompts = [Prompt([5, 6, 7 + place], 8, NoiseKey(0, 0, 1, place, 0, 0)) for place in range(16)]
    settings, version, mixed = SamplingSettings(temperature=5.0, max_tokens=24), 0, 0
    for _ in range(100):  # on a busy machine an answer may be done before new weights come
        said = worker.generate.remote(prompts, settings, version)
        while not ray.wait([said], timeout=0)[0]:
            version += 1
            weights = updater.weights.remote(version)
            ray.get(worker.load_weights.options(concurrency_group=CONTROL).remote(weights, 1))
        answers = [answer for group in ray.get(said).answers for answer in group]
        assert all(answer.versions == sorted(answer.versions) for answer in answers)
        mixed = max(len(set(answer.versions)) for answer in answers)
        if mixed > 1:
            break
    assert mixed > 1, f"none of {version} came in between"
    ray.kill(worker)
    ray.kill(updater)


@pytest.mark.extended
def test_workers_that_die_during_play_are_replaced(
    ray_cluster: None, little_model: Path, tmp_path: Path
) -> None:
    import ray

    from workers.driver.ray_backend import RayBackend
    from workers.protocol import StopChecks

    config = small_config(
        little_model,
        **APART,
        run__iterations=20,
        rollout__staleness=3,
        rollout__wave=2,
        rollout__max_concurrent=6,
        resources__environment_workers=2,
    )
    backend = RayBackend(
        Attempt(config, "dying", 1, tmp_path, tmp_path),
        StopChecks(lambda: None, lambda: None),
        lambda text: None,
    )
    try:
        backend.start(None)
        backend.play_ahead(0, None)
        for iteration in range(1, 5):
            collected = backend.collect(iteration)
            assert len(collected.facts) == 6 and not any(facts.failed for facts in collected.facts)
            if iteration in (1, 2):
                assert backend._session is not None
                for name in ("rollout-planner-0", "environment-0") if iteration == 1 else ("environment-1",):
                    os.kill(ray.get(backend._session.workers[name].handle.ping.remote()), signal.SIGKILL)
            updated = backend.update(iteration)
            assert updated.metrics["planner"]["tokens"] > 0
            backend.publish(iteration)
    finally:
        backend.close()
