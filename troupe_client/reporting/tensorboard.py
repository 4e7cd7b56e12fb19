"""Import TensorBoard's event files: each folder with event files is one run, as in TensorBoard.

A repeated import adds new values only: run, producer and seq are functions of folder, file and value.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from training_core.errors import TroupeError
from troupe_client.reporting.importing import deliver, deliver_end, digest, metrics_event, stable_id
from troupe_client.reporting.opening import begin
from troupe_client.reporting.scalars import Scalars
from troupe_client.server_api import Server

PATTERN = "*tfevents*"


def log_folders(root: Path) -> list[Path]:
    """Return the folders with event files at or below `root`. Raises TroupeError if there is none."""
    folders = sorted({path.parent for path in root.rglob(PATTERN) if path.is_file()})
    if not folders:
        raise TroupeError(f"there are no TensorBoard event files (*tfevents*) below {root}")
    return folders


def import_folder(server: Server, folder: Path, project: str, name: str, tags: list[str]) -> tuple[str, int]:
    """Deliver the scalars of one folder. Returns the id of the run and the number of values.

    A file that repeats steps of earlier ones, as after a resume with `purge_step`, is a new attempt: its values replace theirs.
    Raises TroupeError (the server refuses, or TensorBoard is not installed), Undelivered.
    """
    run = stable_id(str(folder.resolve()))
    description = {
        "name": name[:120],
        "tags": tags,
        "config": {"folder": str(folder)},
    }
    request = {"id": run, "project": project, "resume": "allow", **description}
    files = sorted(folder.glob(PATTERN), key=_in_order)
    ends: dict[str, int] = {}
    count = attempt = 0
    for file in files:
        recorded = Recorded.of(file)
        again = recorded.repeats(ends)
        if again and attempt:
            deliver_end(server, run, attempt, max(ends.values()))
        if again or not attempt:
            attempt += 1
            nonce = "import" if attempt == 1 else f"import-{attempt}"
            first = max(0, min(recorded.firsts.values(), default=0))
            attempt = begin(server, request | {"nonce": nonce, "first_step": first}).attempt
        producer = file.name if attempt == 1 else f"{file.name} {attempt}"
        deliver(server, run, attempt, digest(producer), recorded.events)
        count += recorded.count
        ends |= recorded.lasts
    deliver_end(server, run, attempt, max(ends.values(), default=0))
    return run, count


@dataclass
class Recorded:
    """The scalars of an event file."""

    events: list[bytes] = field(default_factory=list)
    """Metrics events without an envelope."""
    count: int = 0
    firsts: dict[str, int] = field(default_factory=dict)
    """Smallest step by tag."""
    lasts: dict[str, int] = field(default_factory=dict)
    """Largest step by tag."""

    @classmethod
    def of(cls, file: Path) -> "Recorded":
        """Read a file."""
        recorded = cls()
        for time_written, step, values in scalars_of(file):
            recorded.events.append(metrics_event(step, values, time_written))
            recorded.count += len(values)
            for tag in values:
                recorded.firsts[tag] = min(step, recorded.firsts.get(tag, step))
                recorded.lasts[tag] = max(step, recorded.lasts.get(tag, step))
        return recorded

    def repeats(self, ends: Mapping[str, int]) -> bool:
        """Whether it has a step of a tag that earlier files have, or an earlier one. ends: their last steps by tag."""
        return any(tag in ends and first <= ends[tag] for tag, first in self.firsts.items())


def _in_order(file: Path) -> list[Any]:
    """Sort files by the time and the number in their names."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", file.name)]


def scalars_of(file: Path) -> Iterator[tuple[float, int, dict[str, float]]]:
    """Yield (seconds since the epoch, step, values by tag) of an event file, in its order. Only scalars are read."""
    try:
        from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
        from tensorboard.util import tensor_util
    except ImportError as error:
        raise TroupeError("reading event files needs TensorBoard: pip install tensorboard") from error
    clean = Scalars()
    for event in EventFileLoader(str(file)).Load():
        values: dict[str, Any] = {}
        for value in event.summary.value:
            if value.metadata.plugin_data.plugin_name == "scalars":
                values[value.tag] = float(tensor_util.make_ndarray(value.tensor).item())
        if values:
            yield event.wall_time, event.step, clean.flat(values)
