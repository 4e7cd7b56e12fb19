"""Checkpoints: whole or not there, the best kept, hostile names refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.workers.running import small_config
from training_core.checkpoints import checkpoints, latest
from training_core.errors import CheckpointError, ConfigError
from workers.driver.checkpointing import CheckpointKeeper
from workers.storage.folders import RunFolder
from workers.telemetry.metrics import Progress


class Notes:
    """A journal that only remembers."""

    def __init__(self, values: dict[int, float] | None = None) -> None:
        self.progress = Progress(episodes=7)
        self.values = values or {}
        self.told: list[tuple[str, int, bool]] = []

    def measured(self, name: str, step: int) -> float | None:
        return self.values.get(step)

    def checkpointed(self, iteration: int, path: str, size: int, *, best: bool) -> None:
        assert size > 0
        self.told.append((path, iteration, best))

    def removed(self, iteration: int, path: str) -> None:
        self.told.append((f"removed {path}", iteration, False))


class Writer:
    """A crew that writes one file for each policy, or fails in the middle."""

    def __init__(self, *, fails: bool = False, policies: tuple[str, ...] = ("planner", "executor")) -> None:
        self.fails, self.policies = fails, policies

    def save(self, folder: Path) -> None:
        for policy in self.policies:
            (folder / policy).mkdir()
            (folder / policy / "policy.json").write_text("{}")
        if self.fails:
            raise OSError("no space left on device")


def keeper(folder: Path, **overrides: Any) -> CheckpointKeeper:
    return CheckpointKeeper(small_config(Path("m"), **overrides), RunFolder(folder))


def test_the_latest_and_the_best_are_kept(tmp_path: Path) -> None:
    notes: Any = Notes({1: 0.2, 2: 0.9, 3: 0.5, 4: 0.9, 5: 0.1})
    keeping = keeper(tmp_path, checkpoint__keep=2)
    for iteration in range(1, 6):
        keeping.save(Writer(), notes, iteration)  # type: ignore[arg-type]
    assert sorted(checkpoints(tmp_path / "checkpoints")) == [2, 4, 5]
    assert [iteration for _, iteration, best in notes.told if best] == [1, 2], (
        "an equal value is no improvement"
    )
    assert ("removed checkpoints/iteration-000001", 1, False) in notes.told


def test_a_checkpoint_without_a_trained_policy_fails(tmp_path: Path) -> None:
    notes: Any = Notes()
    with pytest.raises(CheckpointError, match=r"executor/policy\.json"):
        keeper(tmp_path).save(Writer(policies=("planner",)), notes, 1)  # type: ignore[arg-type]
    assert not list((tmp_path / "checkpoints").iterdir())
    assert notes.told == []
    frozen = keeper(tmp_path, team__roles__executor__trained=False)
    frozen.save(Writer(policies=("planner",)), notes, 1)  # type: ignore[arg-type]
    assert latest(tmp_path / "checkpoints") is not None


def test_a_new_attempt_recalls_progress_and_best_and_clears_drafts(tmp_path: Path) -> None:
    first: Any = Notes({1: 0.9})
    keeper(tmp_path).save(Writer(), first, 1)  # type: ignore[arg-type]
    (tmp_path / "checkpoints" / ".draft-dead").mkdir()
    second: Any = Notes({2: 0.5})
    second.progress.episodes = 0
    again = keeper(tmp_path)
    assert again.recall(tmp_path / "checkpoints" / "iteration-000001", second) == 1
    assert second.progress.episodes == 7
    again.save(Writer(), second, 2)  # type: ignore[arg-type]
    assert second.told[-1] == ("checkpoints/iteration-000002", 2, False)
    assert not list((tmp_path / "checkpoints").glob(".draft-*"))


def test_keep_best_checkpoints_are_kept(tmp_path: Path) -> None:
    notes: Any = Notes({1: 0.9, 2: 0.2, 3: 0.8, 4: 0.3, 5: 0.1, 6: 0.4})
    keeping = keeper(tmp_path, checkpoint__keep=1, checkpoint__keep_best=2)
    for iteration in range(1, 6):
        keeping.save(Writer(), notes, iteration)  # type: ignore[arg-type]
    assert sorted(checkpoints(tmp_path / "checkpoints")) == [1, 3, 5]
    again = keeper(tmp_path, checkpoint__keep=1, checkpoint__keep_best=2)
    again.recall(tmp_path / "checkpoints" / "iteration-000005", notes)
    again.save(Writer(), notes, 6)  # type: ignore[arg-type]
    assert sorted(checkpoints(tmp_path / "checkpoints")) == [1, 3, 6]
    assert [iteration for _, iteration, best in notes.told if best] == [1]


def test_an_earlier_checkpoint_names_a_single_best(tmp_path: Path) -> None:
    notes: Any = Notes({1: 0.9, 2: 0.5, 3: 0.6})
    keeping = keeper(tmp_path, checkpoint__keep=1)
    keeping.save(Writer(), notes, 1)  # type: ignore[arg-type]
    place = tmp_path / "checkpoints" / "iteration-000001"
    state = json.loads((place / "state.json").read_text())
    (place / "state.json").write_text(json.dumps(state | {"best": state["best"][0]}))
    sizes = {"state.json": (place / "state.json").stat().st_size}
    (place / "manifest.json").write_text(json.dumps({"layout": 1, "files": sizes}))
    again = keeper(tmp_path, checkpoint__keep=1)
    again.recall(place, notes)
    for iteration in (2, 3):
        again.save(Writer(), notes, iteration)  # type: ignore[arg-type]
    assert sorted(checkpoints(tmp_path / "checkpoints")) == [1, 3]


@pytest.mark.parametrize(
    ("fields", "written"),
    [
        ({"checkpoint__every": 4}, [4, 8, 9]),
        ({"checkpoint__every": 0}, [9]),
        # 6 tasks an iteration: 15 tasks end within iterations 3, 5 and 8
        ({"checkpoint__every": 0, "checkpoint__every_epochs": 1, "rollout__epoch_tasks": 15}, [3, 5, 8, 9]),
        ({"checkpoint__every": 0, "checkpoint__every_epochs": 2, "rollout__epoch_tasks": 15}, [5, 9]),
        # an epoch of fewer tasks than an iteration
        ({"checkpoint__every": 0, "checkpoint__every_epochs": 1, "rollout__epoch_tasks": 2}, [*range(1, 10)]),
        ({"checkpoint__every": 5, "checkpoint__every_epochs": 1, "rollout__epoch_tasks": 24}, [4, 5, 8, 9]),
    ],
)
def test_a_checkpoint_is_due_by_count_and_epochs(
    fields: dict[str, Any], written: list[int], tmp_path: Path
) -> None:
    keeping = keeper(tmp_path, run__iterations=9, **fields)
    assert [iteration for iteration in range(1, 10) if keeping.due(iteration)] == written


def test_a_checkpoint_is_due_after_every_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("workers.driver.checkpointing.time.monotonic", lambda: now)
    notes: Any = Notes()
    keeping = keeper(tmp_path, run__iterations=9, checkpoint__every=0, checkpoint__every_seconds=60)
    now = 159.0
    assert not keeping.due(1)
    now = 160.0
    assert keeping.due(2)
    keeping.save(Writer(), notes, 2)  # type: ignore[arg-type]
    assert not keeping.due(3)
    now = 221.0
    assert keeping.due(4)


def test_unlimited_epochs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="set rollout.epoch_tasks to its number of tasks"):
        keeper(tmp_path, checkpoint__every_epochs=1)
