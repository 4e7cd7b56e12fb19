"""Play ahead of the update: the synchronous loop's numbers at staleness 0; bounded, whole and resumable above."""

from pathlib import Path
from typing import Any

import pytest

from tests.workers.running import conversation, curve, events, small_config
from training_core.errors import ConfigError
from workers.loops import attempt as attempts
from workers.loops.attempt import run_attempt
from workers.loops.records import Attempt

APART = {
    "policies__planner__devices__placement": "apart",
    "policies__executor__devices__placement": "apart",
}


def attempt(
    folder: Path, model: Path, number: int = 1, resume_from: Path | None = None, **overrides: Any
) -> Attempt:
    config = small_config(model, **APART, **overrides)
    return Attempt(config, "r", number, folder, folder.parent, resume_from)


@pytest.mark.parametrize("waves", [{}, {"rollout__wave": 2}], ids=["one-wave", "three-waves"])
def test_without_staleness_it_is_the_synchronous_loop_number_for_number(
    waves: dict[str, Any], little_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "synchronous", tmp_path / "asynchronous"
    assert run_attempt(attempt(here, little_model, run__iterations=3), local=True) == 0
    monkeypatch.setattr(attempts, "loop_of", lambda config: "asynchronous")
    assert run_attempt(attempt(there, little_model, run__iterations=3, **waves), local=True) == 0
    expected, found = curve(here), curve(there)
    extra = {"rollout/rejected", "rollout/waiting"}
    assert {name for name, _ in found.keys() - expected.keys()} == extra
    assert len(expected) > 100
    if waves:  # batches of another shape: equal but for the last bit
        assert {key: found[key] for key in expected} == pytest.approx(expected, rel=1e-4, abs=1e-6)
    else:
        assert {key: found[key] for key in expected} == expected
    assert conversation(there) == conversation(here)


def test_data_is_at_most_so_old_and_every_token_says_how_old(little_model: Path, tmp_path: Path) -> None:
    told = attempt(tmp_path, little_model, run__iterations=6, rollout__staleness=2, rollout__wave=3)
    assert run_attempt(told, local=True) == 0
    ages = []
    for event in events(tmp_path, "episode"):
        if event["kind"] == "train":
            updated = event["iteration"] - 1  # the version that its update improved
            versions = [
                version
                for turn in event["turns"]
                for candidate in turn["candidates"]
                for version in candidate["versions"]
            ]
            assert all(updated - 2 <= version <= updated for version in versions)
            ages.append(updated - min(versions))
    assert len(ages) == 6 * 6
    assert max(ages) > 0, "play never ran ahead"
    staleness = [value for (name, _), value in curve(tmp_path).items() if name == "rollout/staleness"]
    assert len(staleness) == 6 and max(staleness) > 0
    assert all(value <= 2 for value in staleness)
    assert curve(tmp_path)["progress/episodes", 6] == 36, "six tasks an iteration, none twice"
    tasks = [event["episode"] for event in events(tmp_path, "episode") if event["kind"] == "train"]
    assert len(set(tasks)) == len(tasks)


def test_a_resumed_run_plays_again_what_was_begun_and_not_learnt_from(
    little_model: Path, tmp_path: Path
) -> None:
    ahead = {"run__iterations": 5, "rollout__staleness": 1}
    assert run_attempt(attempt(tmp_path, little_model, **ahead), local=True) == 0
    middle = tmp_path / "checkpoints" / "iteration-000003"
    assert run_attempt(attempt(tmp_path, little_model, 2, middle, **ahead), local=True) == 0
    learnt = {
        (event["iteration"], item["episode"].split("-", 1)[1])
        for number in (1, 2)
        for event in events(tmp_path, "batch", number)
        for item in event["episodes"]
    }
    again = {item for item in learnt if item[0] > 3}
    assert {name for _, name in again} == {f"{i}-train-{slot}" for i in (4, 5) for slot in range(6)}
    assert [event["state"] for event in events(tmp_path, "status", 2)] == ["starting", "running", "finished"]


def test_one_copy_of_the_weights_cannot_generate_and_learn_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r'devices.placement: "colocated" has one copy .* set "apart"'):
        small_config(tmp_path, rollout__staleness=1)
    with pytest.raises(ConfigError, match="rollout.publish_every at its default"):
        small_config(tmp_path, rollout__publish_every=2)


def test_weights_may_be_published_every_other_update(little_model: Path, tmp_path: Path) -> None:
    told = attempt(
        tmp_path,
        little_model,
        run__iterations=4,
        rollout__publish_every=2,
        evaluation__every=0,
        checkpoint__every=0,
    )
    assert run_attempt(told, local=True) == 0
    seen = [(event["iteration"], event["versions"]["planner"]) for event in events(tmp_path, "episode")]
    assert dict(seen) == {1: 0, 2: 0, 3: 1, 4: 1}
