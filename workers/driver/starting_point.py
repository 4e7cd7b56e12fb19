"""Selects the checkpoint that an attempt starts from: the requested one, or an earlier one if that is damaged. Handles no tensors."""

import logging
from pathlib import Path

from training_core.checkpoints import checkpoints, damage, has_hashes, iteration_of
from training_core.errors import CheckpointError
from workers.driver.run_events import RunEvents
from workers.protocol.records import Attempt
from workers.storage.run_folder import RunFolder

log = logging.getLogger(__name__)


def starting_point(attempt: Attempt, run_events: RunEvents) -> Path | None:
    """The checkpoint to start from, verified against its manifest; None if the attempt starts from the base models.

    A damaged checkpoint of the run itself is reported. With `attempt.fall_back` the newest earlier intact one replaces it.
    Raises CheckpointError if none is intact, or if the requested one is damaged and `fall_back` is off.
    """
    requested = attempt.start_from
    if requested is None:
        return None
    problem = damage(requested)
    if not problem:
        _log_missing_hashes(requested)
        return requested
    if attempt.forks:
        run_events.origin_damaged(problem)
        raise CheckpointError(
            f"{_named(requested)}, which this run starts from, is damaged: {problem}; start from another one"
        )
    return _earlier(attempt, requested, problem, run_events)


def _earlier(attempt: Attempt, requested: Path, problem: str, run_events: RunEvents) -> Path:
    """The newest intact checkpoint before `requested`, which is damaged. Raises CheckpointError."""
    damaged = {requested: problem}
    _report(attempt, requested, problem, run_events)
    for checkpoint in _before(requested):
        if problem := damage(checkpoint):
            damaged[checkpoint] = problem
            _report(attempt, checkpoint, problem, run_events)
            continue
        damages = "; ".join(f"{_named(folder)} is damaged: {text}" for folder, text in damaged.items())
        if not attempt.fall_back:
            raise CheckpointError(f"{damages}; {_named(checkpoint)} is whole; resume from that one")
        _log_missing_hashes(checkpoint)
        run_events.fell_back(checkpoint, f"{damages}; resumed from iteration {iteration_of(checkpoint.name)}")
        return checkpoint
    damages = "; ".join(f"{_named(folder)}: {text}" for folder, text in damaged.items())
    raise CheckpointError(
        f"no checkpoint to resume from is whole ({damages}); restore their files, or delete them to start the run from its beginning"
    )


def _before(requested: Path) -> list[Path]:
    """Checkpoints of earlier iterations in the same folder, newest first."""
    try:
        iteration = iteration_of(requested.name)
    except CheckpointError:
        return []  # a folder with another name, from the command line
    folders = checkpoints(requested.parent)
    return [folders[number] for number in sorted(folders, reverse=True) if number < iteration]


def _report(attempt: Attempt, checkpoint: Path, problem: str, run_events: RunEvents) -> None:
    """Report a damaged checkpoint of this run."""
    folder = RunFolder(attempt.folder)
    if checkpoint.parent == folder.checkpoints:
        path = checkpoint.relative_to(folder.root).as_posix()
        run_events.damaged(iteration_of(checkpoint.name), path, problem)


def _log_missing_hashes(checkpoint: Path) -> None:
    if not has_hashes(checkpoint):
        log.info(
            "%s was written by an earlier version of Troupe without hashes: only the sizes of its files were compared",
            _named(checkpoint),
        )


def _named(checkpoint: Path) -> str:
    try:
        return f"the checkpoint of iteration {iteration_of(checkpoint.name)}"
    except CheckpointError:
        return f"the checkpoint {checkpoint.name}"
