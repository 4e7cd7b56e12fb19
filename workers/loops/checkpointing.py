"""The driver's part of checkpoints: when one is complete, which is best, which are deleted. No tensors here.

A checkpoint is written beside its place and renamed into it, so that what bears the name is whole:
<run folder>/checkpoints/iteration-000020/state.json   iteration, progress, best so far
<run folder>/checkpoints/iteration-000020/<policy>/    see workers.actors.policy_state
"""

import json
import os
import re
import secrets
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from training_core.config.run import RunConfig
from training_core.errors import CheckpointError
from workers.launch.run_folder import RunFolder
from workers.loops.journal import Journal
from workers.loops.records import Crew

LAYOUT = 1
STATE = "state.json"
DRAFT = ".draft-"
NAME = re.compile(r"iteration-(\d{6,})")


@dataclass(frozen=True)
class Best:
    """The checkpoint with the highest value of checkpoint.best_of."""

    iteration: int
    value: float


class CheckpointKeeper:
    """Checkpoints of one run, shared by all of its attempts."""

    def __init__(self, config: RunConfig, folder: RunFolder) -> None:
        self._config = config
        self._folder = folder
        self._best: Best | None = None

    def recall(self, resume_from: Path | None, journal: Journal) -> int:
        """Remember what the run knew at a checkpoint; the iterations completed then. Raises CheckpointError."""
        for draft in self._folder.checkpoints.glob(f"{DRAFT}*"):  # of an attempt that died while it wrote
            shutil.rmtree(draft, ignore_errors=True)
        if resume_from is None:
            return 0
        state = read_state(resume_from)
        for name, value in state["progress"].items():
            setattr(journal.progress, name, int(value))
        self._best = Best(**state["best"]) if state["best"] else None
        return int(state["iteration"])

    def save(self, crew: Crew, journal: Journal, iteration: int) -> None:
        """Write a checkpoint, then delete what is no longer wanted. Raises CheckpointError."""
        value = journal.measured(self._config.checkpoint.best_of, iteration)
        best = value is not None and (self._best is None or value > self._best.value)
        if best and value is not None:
            self._best = Best(iteration, value)
        place = self._folder.checkpoints / f"iteration-{iteration:06d}"
        draft = place.with_name(f"{DRAFT}{secrets.token_hex(4)}")
        try:
            draft.mkdir(parents=True)
            crew.save(draft)
            (draft / STATE).write_text(json.dumps(self._state(journal, iteration), indent=1))
            commit(draft, place)
        except OSError as error:
            raise CheckpointError(
                f"cannot write the checkpoint {place}: {error}; is the disk full?"
            ) from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        journal.checkpointed(iteration, self._relative(place), size_of(place), best=best)
        self._retain(journal, iteration)

    def _state(self, journal: Journal, iteration: int) -> dict[str, Any]:
        return {
            "layout": LAYOUT,
            "iteration": iteration,
            "seed": self._config.run.seed,
            "policies": list(self._config.trained_policies),
            "progress": asdict(journal.progress),
            "best": asdict(self._best) if self._best else None,
        }

    def _retain(self, journal: Journal, iteration: int) -> None:
        """Keep the latest and the best. Those beyond `iteration` are an earlier attempt's: they will be written over."""
        there = sorted(found for found in checkpoints(self._folder.checkpoints) if found <= iteration)
        best = self._best.iteration if self._best else -1
        for number in there[: -self._config.checkpoint.keep]:
            if number != best:
                place = self._folder.checkpoints / f"iteration-{number:06d}"
                shutil.rmtree(place)
                journal.removed(number, self._relative(place))

    def _relative(self, place: Path) -> str:
        return place.relative_to(self._folder.root).as_posix()


def read_state(checkpoint: Path) -> dict[str, Any]:
    """What the driver wrote with a checkpoint. Raises CheckpointError."""
    if not NAME.fullmatch(checkpoint.name):
        raise CheckpointError(
            f"{checkpoint} is no checkpoint; name a folder like checkpoints/iteration-000020"
        )
    try:
        state: dict[str, Any] = json.loads((checkpoint / STATE).read_text())
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"cannot read the checkpoint {checkpoint}: {error}; resume from another one"
        ) from error
    if state.get("layout") != LAYOUT:
        raise CheckpointError(
            f"the checkpoint {checkpoint} has layout {state.get('layout')}, this version reads {LAYOUT}"
        )
    return state


def checkpoints(folder: Path) -> dict[int, Path]:
    """Whole checkpoints in a run's checkpoint folder, by iteration; anything else there is left alone."""
    if not folder.is_dir():
        return {}
    matches = ((NAME.fullmatch(item.name), item) for item in folder.iterdir())
    return {int(match[1]): item for match, item in matches if match and (item / STATE).is_file()}


def latest(folder: Path) -> Path | None:
    """The last whole checkpoint in a run's checkpoint folder."""
    there = checkpoints(folder)
    return there[max(there)] if there else None


def commit(draft: Path, place: Path) -> None:
    """Make a draft the checkpoint: everything is on disk before the name is."""
    for item in sorted(draft.rglob("*")):
        sync(item)
    sync(draft)
    if place.exists():  # an earlier attempt came this far, too
        aside = place.with_name(f"{DRAFT}{secrets.token_hex(4)}")
        place.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
    draft.rename(place)
    sync(place.parent)


def sync(path: Path) -> None:
    """Wait until a file or folder is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def size_of(folder: Path) -> int:
    """Bytes of all files below."""
    return sum(item.stat().st_size for item in folder.rglob("*") if item.is_file())
