"""Import runs from the files of other tools. A repeated import adds new values only: run, producer and seq are functions of the files."""

import hashlib
import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from troupe_client.reporting.artifacts import files_below, version_body, version_put
from troupe_client.reporting.media import Media
from troupe_client.reporting.opening import ALPHABET, begin
from troupe_client.reporting.scalars import Scalars
from troupe_client.server_api import Server, run_path
from workers.reporting.encoding import encode
from workers.telemetry.delivery import HttpChannel, SpoolUploader
from workers.telemetry.limits import MAX_MEDIA
from workers.telemetry.spool import SpoolWriter

logger = logging.getLogger("troupe")
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
    files: Path | None = None
    """Folder with its artifacts."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Number of values that cannot be imported, by kind."""
    clean: Scalars = field(default_factory=Scalars)

    def add(self, producer: str, step: int, values: Mapping[str, Any], written: float) -> None:
        """Add the numbers and media of one step. written: seconds since the epoch."""
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


def run_import(server: Server, run: ImportedRun, project: str, tags: Iterable[str] = ()) -> tuple[str, int]:
    """Deliver a run, with its files as a version of the artifact `run-ID`. Returns its id and the number of values.

    Raises TroupeError (the server refuses), Undelivered.
    """
    run_id = stable_id(run.identity)
    request: dict[str, Any] = {
        "id": run_id,
        "project": project,
        "resume": "allow",
        "nonce": "import",
        "name": run.name[:120],
    }
    request |= {"tags": [*tags, *run.tags][:20], "config": run.config, "notes": run.notes[:4000]}
    begin(server, request)
    for producer, events in run.events.items():
        deliver(server, run_id, 1, digest(producer), events)
    if files := files_below(run.files) if run.files else {}:
        project = server.call(run_path(run_id))["project"]
        body = version_body(f"run-{run_id}", files, "file", (), {})
        version_put(server, run_path(run_id, "artifacts/"), project, body, files)
    deliver_end(server, run_id, 1, run.last, run.state)
    return run_id, run.count


def stable_id(identity: str) -> str:
    """The run id of a text: its hash."""
    number = int.from_bytes(hashlib.sha256(identity.encode()).digest(), "big")
    return "".join(ALPHABET[number // len(ALPHABET) ** position % len(ALPHABET)] for position in range(12))


def digest(producer: str) -> str:
    """The name of a producer in its events."""
    return hashlib.sha256(producer.encode()).hexdigest()[:16]


def deliver_end(server: Server, run: str, attempt: int, last: int, state: str = "finished") -> None:
    """Report the end, or how far a running program is. The producer depends on both: a repeated import reports what is new."""
    end: dict[str, Any] = {"type": "status", "state": state, "message": "", "facts": {}}
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
