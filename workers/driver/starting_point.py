"""Which checkpoint an attempt starts from: the one that was asked for, or an earlier one where that is damaged. No tensors here."""

import logging
from pathlib import Path

from training_core.checkpoints import checkpoints, damage, has_hashes, iteration_of
from training_core.errors import CheckpointError
from workers.driver.run_events import RunEvents
from workers.protocol.records import Attempt
from workers.storage.run_folder import RunFolder

log = logging.getLogger(__name__)


def starting_point(attempt: Attempt, run_events: RunEvents) -> Path | None:
    """The checkpoint to start from, compared with its manifest; None where the attempt starts from the base models.

    A damaged checkpoint of the run itself is reported. With `attempt.fall_back` the newest earlier one that is whole
    takes its place. Raises CheckpointError where none is whole, or where only this one was wanted.
    """
    wanted = attempt.start_from
    if wanted is None:
        return None
    found = damage(wanted)
    if not found:
        _tell_of_sizes(wanted)
        return wanted
    if attempt.forks:
        run_events.origin_damaged(found)
        raise CheckpointError(
            f"{_named(wanted)}, which this run starts from, is damaged: {found}; start from another one"
        )
    return _earlier(attempt, wanted, found, run_events)


def _earlier(attempt: Attempt, wanted: Path, found: str, run_events: RunEvents) -> Path:
    """The newest whole checkpoint before `wanted`, which is damaged. Raises CheckpointError."""
    damaged = {wanted: found}
    _report(attempt, wanted, found, run_events)
    for place in _before(wanted):
        if why := damage(place):
            damaged[place] = why
            _report(attempt, place, why, run_events)
            continue
        told = "; ".join(f"{_named(each)} is damaged: {what}" for each, what in damaged.items())
        if not attempt.fall_back:
            raise CheckpointError(f"{told}; {_named(place)} is whole, resume from that one")
        _tell_of_sizes(place)
        run_events.fell_back(place, f"{told}; resumed from iteration {iteration_of(place.name)}")
        return place
    told = "; ".join(f"{_named(each)}: {what}" for each, what in damaged.items())
    raise CheckpointError(
        f"no checkpoint to resume from is whole ({told}); restore their files, or delete them to start the run from its beginning"
    )


def _before(wanted: Path) -> list[Path]:
    """Checkpoints beside `wanted` of earlier iterations, the newest first."""
    try:
        iteration = iteration_of(wanted.name)
    except CheckpointError:
        return []  # a folder of another name, given at a command line
    found = checkpoints(wanted.parent)
    return [found[number] for number in sorted(found, reverse=True) if number < iteration]


def _report(attempt: Attempt, place: Path, found: str, run_events: RunEvents) -> None:
    """Have a damaged checkpoint of this run marked as such."""
    folder = RunFolder(attempt.folder)
    if place.parent == folder.checkpoints:
        run_events.damaged(iteration_of(place.name), place.relative_to(folder.root).as_posix(), found)


def _tell_of_sizes(place: Path) -> None:
    if not has_hashes(place):
        log.info(
            "%s was written by an earlier version of Troupe without hashes: only the sizes of its files were compared",
            _named(place),
        )


def _named(place: Path) -> str:
    try:
        return f"the checkpoint of iteration {iteration_of(place.name)}"
    except CheckpointError:
        return f"the checkpoint {place.name}"
