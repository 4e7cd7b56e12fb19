"""Checkpoints: whole or not there, the best kept, hostile names refused."""

from pathlib import Path
from typing import Any

import pytest

from tests.workers.running import small_config
from training_core.checkpoints import checkpoints, latest
from training_core.errors import CheckpointError
from workers.launch.run_folder import RunFolder
from workers.loops.checkpointing import CheckpointKeeper
from workers.loops.metrics import Progress


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
    """A crew that writes one file, or fails in the middle."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails

    def save(self, folder: Path) -> None:
        (folder / "weights").write_text("x")
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


def test_what_could_not_be_written_leaves_nothing(tmp_path: Path) -> None:
    notes: Any = Notes()
    keeping = keeper(tmp_path)
    keeping.save(Writer(), notes, 1)  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match="is the disk full"):
        keeping.save(Writer(fails=True), notes, 2)  # type: ignore[arg-type]
    assert [item.name for item in (tmp_path / "checkpoints").iterdir()] == ["iteration-000001"]
    assert latest(tmp_path / "checkpoints") == tmp_path / "checkpoints" / "iteration-000001"


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


def test_a_replayed_iteration_is_written_over(tmp_path: Path) -> None:
    notes: Any = Notes()
    keeper(tmp_path).save(Writer(), notes, 3)  # type: ignore[arg-type]
    (tmp_path / "checkpoints" / "iteration-000003" / "old").write_text("x")
    keeper(tmp_path).save(Writer(), notes, 3)  # type: ignore[arg-type]
    assert not (tmp_path / "checkpoints" / "iteration-000003" / "old").exists()
