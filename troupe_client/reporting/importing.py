"""Import runs from the files of other tools. A repeated import adds new values only: run, producer and seq are functions of the files."""

import hashlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from training_core.errors import TroupeError
from troupe_client.documents.descriptions import LARGEST_STEP
from troupe_client.reporting.artifacts import files_below, version_body, version_put
from troupe_client.reporting.config_values import config_json
from troupe_client.reporting.media import Media
from troupe_client.reporting.opening import ALPHABET, begin, within_limits
from troupe_client.reporting.scalars import Scalars
from troupe_client.server_api import Server, run_path
from workers.reporting.encoding import encode
from workers.telemetry.delivery import HttpChannel, SpoolUploader, Undelivered
from workers.telemetry.limits import MAX_MEDIA
from workers.telemetry.spool import SpoolWriter

logger = logging.getLogger("troupe")
LAST_MOMENT = 253402300799
"""Seconds from the epoch to the year 9999."""
_NAMED: set[Path] = set()
"""Links that the log names already."""


def files_within(root: Path, folder: Path, pattern: str = "*") -> list[Path]:
    """Return the files at or below `folder` that match, sorted. A link that leads out of `root` is left out and named in the log: an
    archive of somebody else may contain links to files of the person who imports it.
    """
    paths = sorted(folder.rglob(pattern)) if is_within(root, folder) else []
    return [file for file in paths if file.is_file() and is_within(root, file)]


def is_within(root: Path, path: Path) -> bool:
    """Whether a path is below `root` when its links are followed. One that is not is named in the log."""
    if path.resolve().is_relative_to(root.resolve()):
        return True
    if path not in _NAMED:
        _NAMED.add(path)
        logger.warning("%s is not imported: it is a link that leads out of %s", path, root)
    return False


Source = TypeVar("Source")
Skipped = dict[str, str]
"""What is not imported -> the reason."""


class NeedsPackage(TroupeError):
    """The package that reads the files is not installed."""


def read_each(
    sources: Iterable[Source], read: Callable[[Source], "ImportedRun | None"], skipped: Skipped | None
) -> Iterator["ImportedRun"]:
    """Yield the run of each source that has one. A source that cannot be read is left out, with its reason in `skipped`.

    Raises NeedsPackage.
    """
    for source in sources:
        try:
            run = read(source)
        except NeedsPackage:
            raise
        except Exception as error:  # files of others can be damaged in any way
            reason = str(error) if isinstance(error, TroupeError) else f"{type(error).__name__}: {error}"
            logger.warning("%s is not imported: %s", source, reason)
            if skipped is not None:
                skipped[str(source)] = reason
        else:
            if run is not None:
                yield run


@dataclass
class ImportedRun:
    """A run of another tool."""

    identity: str
    """Text that no other run has, and that is the same at each import."""
    name: str
    config: dict[str, Any] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    notes: str = ""
    state: str = "finished"
    """finished, stopped, failed, or running: the program still writes, or was killed."""
    events: dict[str, list[bytes]] = field(default_factory=dict)
    """Events by producer, without an envelope. Files are appended to: an event never changes, and new ones come last."""
    count: int = 0
    """Number of values."""
    last: int = 0
    """Largest step."""
    first: int | None = None
    """Smallest step."""
    written: float = 0.0
    """When it began, in seconds since the epoch."""
    damage: str = ""
    """What is wrong in its files, of which a part is imported."""
    later: list["ImportedRun"] = field(default_factory=list)
    """Its later attempts, in order. Their events, steps and states count; each replaces earlier values from its first step on."""
    files: Path | None = None
    """Folder with its artifacts."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Number of values that cannot be imported, by kind."""
    clean: Scalars = field(default_factory=Scalars)

    def add(self, producer: str, step: int, values: Mapping[str, Any], written: float) -> None:
        """Add the numbers and media of one step. written: seconds since the epoch, or milliseconds, microseconds or nanoseconds."""
        written, step = moment(written), min(max(step, -LARGEST_STEP), LARGEST_STEP)
        media: dict[str, list[Media]] = {}
        flat = self.clean.flat(values, media)
        events = self.events.setdefault(producer, [])
        if flat or not media:
            events.append(encode({"type": "metrics", "step": step, "values": flat, "time": written}))
        for name, items in media.items():
            event = {
                "type": "media",
                "step": step,
                "name": name,
                "values": [item.document() for item in items],
            }
            if len(line := encode(event | {"time": written})) > MAX_MEDIA:
                self.left_out[f"{items[0].kind} of more than {MAX_MEDIA >> 20} MiB"] += 1
            else:
                events.append(line)
                self.count += 1
        self.count += len(flat)
        self.last = max(step, self.last)
        self.first = step if self.first is None else min(step, self.first)


def run_import(server: Server, run: ImportedRun, project: str, tags: Iterable[str] = ()) -> tuple[str, int]:
    """Deliver a run, with its files as a version of the artifact `run-ID`. Returns its id and the number of values.

    A run whose import ends early has failed; it does not stay running. Raises TroupeError (the server refuses), Undelivered.
    """
    run_id = stable_id(run.identity)
    request: dict[str, Any] = {
        "id": run_id,
        "project": project,
        "resume": "allow",
        "nonce": "import",
        "name": run.name,
    }
    request |= {"tags": [*tags, *run.tags], "config": config_json(run.config), "notes": run.notes}
    parts = [run, *run.later]
    for number, part in enumerate(parts, 1):
        if number > 1:
            request |= {"nonce": f"import-{number}", "first_step": max(0, part.first or 0)}
        attempt = begin(server, within_limits(request)).attempt
        with ended_early(server, run_id, attempt, part):
            for producer, events in part.events.items():
                deliver(server, run_id, attempt, attempt_producer(producer, number), events)
            if number == len(parts):
                _deliver_files(server, run_id, run.files)
        followed = number < len(parts) and part.state == "running"
        deliver_end(server, run_id, attempt, part.last, "stopped" if followed else part.state)
    return run_id, sum(part.count for part in parts)


def attempt_producer(producer: str, attempt: int) -> str:
    """The name of a producer in the events of an attempt."""
    return digest(producer if attempt == 1 else f"{producer} {attempt}")


@contextmanager
def ended_early(server: Server, run_id: str, attempt: int, part: ImportedRun) -> Iterator[None]:
    """Report the end of a run whose import is interrupted, and raise the error."""
    try:
        yield
    except BaseException as error:
        with suppress(TroupeError, Undelivered):
            reason = f"The import ended early: {error or type(error).__name__}. Repeat it"
            deliver_end(server, run_id, attempt, part.last, "failed", reason)
        raise


def _deliver_files(server: Server, run_id: str, folder: Path | None) -> None:
    if files := files_below(folder) if folder else {}:
        project = server.call(run_path(run_id))["project"]
        body = version_body(f"run-{run_id}", files, "file", (), {})
        version_put(server, run_path(run_id, "artifacts/"), project, body, files)


def moment(written: float) -> float:
    """Return a time in seconds since the epoch: a larger number counts milliseconds, microseconds or nanoseconds."""
    if not isfinite(written) or written < 0:
        return 0.0
    while written > LAST_MOMENT:
        written /= 1000
    return written


def stable_id(identity: str) -> str:
    """The run id of a text: its hash."""
    number = int.from_bytes(hashlib.sha256(identity.encode()).digest(), "big")
    return "".join(ALPHABET[number // len(ALPHABET) ** position % len(ALPHABET)] for position in range(12))


def digest(producer: str) -> str:
    """The name of a producer in its events."""
    return hashlib.sha256(producer.encode()).hexdigest()[:16]


def deliver_end(
    server: Server, run: str, attempt: int, last: int, state: str = "finished", message: str = ""
) -> None:
    """Report the end, or how far a running program is. The producer depends on both: a repeated import reports what is new."""
    end: dict[str, Any] = {"type": "status", "state": state, "message": message, "facts": {}}
    if state == "running":
        end = {"type": "heartbeat"}
    producer = f"end-{attempt}-{last}" + ("" if state == "finished" else f"-{state}")
    deliver(server, run, attempt, producer, [encode(end | {"iteration": last, "time": time.time()})])


def deliver(server: Server, run: str, attempt: int, producer: str, events: Iterable[bytes]) -> None:
    """Deliver events of one producer; those that the server has are not stored again."""
    delivery = Delivery(server, run, attempt, producer)
    try:
        delivery.add(events)
    finally:
        delivery.close()


class Delivery:
    """Delivers the events of one producer. `command` is what people have told the run on its page."""

    def __init__(self, server: Server, run: str, attempt: int, producer: str) -> None:
        self._head = encode({"run": run, "attempt": attempt, "producer": producer})[:-1] + b',"seq":'
        self._scratch = TemporaryDirectory()
        self._spool = SpoolWriter(Path(self._scratch.name) / "spool.jsonl")
        channel = HttpChannel(server.address(f"/api/v1/runs/{run}/events/"), server.token)
        self._uploader = SpoolUploader(self._spool.path, channel)

    def add(self, events: Iterable[bytes]) -> None:
        """Deliver further events, without an envelope. Raises Undelivered."""
        for event in events:
            self._spool.append(self._head, b"," + event[1:] + b"\n")
        while self._uploader.step():
            pass

    @property
    def command(self) -> str | None:
        """stop, pause, exit or None."""
        return self._uploader.command

    def close(self) -> None:
        """Close files and connection."""
        self._spool.close()
        self._uploader.close()
        self._scratch.cleanup()
