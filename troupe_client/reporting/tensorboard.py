"""Import TensorBoard's event files: each folder with event files is one run, as in TensorBoard.

A repeated import adds new values only: run, producer and seq are functions of folder, file and value.
"""

import hashlib
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from training_core.errors import TroupeError
from troupe_client.reporting.opening import ALPHABET, begin
from troupe_client.reporting.scalars import Scalars
from troupe_client.server_api import Server
from workers.reporting.encoding import encode
from workers.telemetry.delivery import HttpChannel, SpoolUploader
from workers.telemetry.spool import SpoolWriter

PATTERN = "*tfevents*"


def log_folders(root: Path) -> list[Path]:
    """Return the folders with event files at or below `root`. Raises TroupeError if there is none."""
    folders = sorted({path.parent for path in root.rglob(PATTERN) if path.is_file()})
    if not folders:
        raise TroupeError(f"there are no TensorBoard event files (*tfevents*) below {root}")
    return folders


def stable_id(folder: Path) -> str:
    """The run id of a folder: a hash of its resolved path."""
    return id_of(str(folder.resolve()))


def id_of(text: str) -> str:
    """The run id of a source: a hash."""
    number = int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")
    return "".join(ALPHABET[number // len(ALPHABET) ** position % len(ALPHABET)] for position in range(12))


def import_folder(server: Server, folder: Path, project: str, name: str, tags: list[str]) -> tuple[str, int]:
    """Deliver the scalars of one folder. Returns the id of the run and the number of values.

    A file that repeats steps of earlier ones, as after a resume with `purge_step`, is a new attempt: its values replace theirs.
    Raises TroupeError (the server refuses, or TensorBoard is not installed), Undelivered.
    """
    run = stable_id(folder)
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
            _deliver_end(server, run, attempt, max(ends.values()))
        if again or not attempt:
            attempt += 1
            nonce = "import" if attempt == 1 else f"import-{attempt}"
            first = max(0, min(recorded.firsts.values(), default=0))
            attempt = begin(server, request | {"nonce": nonce, "first_step": first}).attempt
        producer = file.name if attempt == 1 else f"{file.name} {attempt}"
        deliver(server, run, attempt, hashlib.sha256(producer.encode()).hexdigest()[:16], recorded.events)
        count += recorded.count
        ends |= recorded.lasts
    _deliver_end(server, run, attempt, max(ends.values(), default=0))
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
            event = {"type": "metrics", "step": step, "values": values, "time": time_written}
            recorded.events.append(encode(event))
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


def _deliver_end(server: Server, run: str, attempt: int, last: int) -> None:
    """Report the end. Its producer depends on the last step: a repeated import with new steps reports it again."""
    end = {"type": "status", "state": "finished", "iteration": last, "message": "", "facts": {}}
    deliver(server, run, attempt, f"end-{attempt}-{last}", [encode(end | {"time": time.time()})])


def deliver(server: Server, run: str, attempt: int, producer: str, events: Iterable[bytes]) -> None:
    """Deliver events of one producer; those that the server has are not stored again."""
    head = encode({"run": run, "attempt": attempt, "producer": producer})[:-1] + b',"seq":'
    with TemporaryDirectory() as scratch:
        spool = SpoolWriter(Path(scratch) / "spool.jsonl")
        for event in events:
            spool.append(head, b"," + event[1:] + b"\n")
        spool.close()
        uploader = SpoolUploader(
            spool.path, HttpChannel(server.address(f"/api/v1/runs/{run}/events/"), server.token)
        )
        try:
            while uploader.step():
                pass
        finally:
            uploader.close()
