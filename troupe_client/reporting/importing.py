"""Import runs from the files of other tools. A repeated import adds new values only: run, producer and seq are functions of the files."""

import hashlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from troupe_client.reporting.opening import ALPHABET, begin
from troupe_client.reporting.scalars import Scalars
from troupe_client.server_api import Server
from workers.reporting.encoding import encode
from workers.telemetry.delivery import HttpChannel, SpoolUploader
from workers.telemetry.spool import SpoolWriter


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
    """finished, stopped or failed."""
    events: dict[str, list[bytes]] = field(default_factory=dict)
    """Events by producer, without an envelope. Files are appended to: an event never changes, and new ones come last."""
    count: int = 0
    """Number of values."""
    last: int = 0
    """Largest step."""
    clean: Scalars = field(default_factory=Scalars)

    def add(self, producer: str, step: int, values: Mapping[str, Any], written: float) -> None:
        """Add the values of one step. written: seconds since the epoch."""
        flat = self.clean.flat(values)
        self.events.setdefault(producer, []).append(metrics_event(step, flat, written))
        self.count += len(flat)
        self.last = max(step, self.last)


def run_import(server: Server, run: ImportedRun, project: str, tags: Iterable[str] = ()) -> tuple[str, int]:
    """Deliver a run. Returns its id and the number of values. Raises TroupeError (the server refuses), Undelivered."""
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
    deliver_end(server, run_id, 1, run.last, run.state)
    return run_id, run.count


def stable_id(identity: str) -> str:
    """The run id of a text: its hash."""
    number = int.from_bytes(hashlib.sha256(identity.encode()).digest(), "big")
    return "".join(ALPHABET[number // len(ALPHABET) ** position % len(ALPHABET)] for position in range(12))


def digest(producer: str) -> str:
    """The name of a producer in its events."""
    return hashlib.sha256(producer.encode()).hexdigest()[:16]


def metrics_event(step: int, values: Mapping[str, float], written: float) -> bytes:
    """An event without an envelope."""
    return encode({"type": "metrics", "step": step, "values": values, "time": written})


def deliver_end(server: Server, run: str, attempt: int, last: int, state: str = "finished") -> None:
    """Report the end. Its producer depends on the last step: a repeated import with new steps reports it again."""
    end = {"type": "status", "state": state, "iteration": last, "message": "", "facts": {}}
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
