"""TensorBoard's event files as runs: each folder with event files is one run, as TensorBoard itself counts them.

Importing again stores nothing twice: a folder always gets the same run, a file the same producer, a value the same seq.
"""

import hashlib
import time
from collections.abc import Iterator
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
    """Folders with event files at or below `root`. Raises TroupeError where there is none."""
    found = sorted({path.parent for path in root.rglob(PATTERN) if path.is_file()})
    if not found:
        raise TroupeError(f"there are no TensorBoard event files (*tfevents*) below {root}")
    return found


def stable_id(folder: Path) -> str:
    """The run's id, made from the folder's whole path."""
    number = int.from_bytes(hashlib.sha256(str(folder.resolve()).encode()).digest(), "big")
    return "".join(ALPHABET[number // len(ALPHABET) ** place % len(ALPHABET)] for place in range(12))


def import_folder(server: Server, folder: Path, project: str, name: str, tags: list[str]) -> tuple[str, int]:
    """Bring one folder's scalars to the server; the run's id, and how many values there are.

    Raises TroupeError (refused, no reader installed), Undelivered.
    """
    run = stable_id(folder)
    described = {
        "name": name[:120],
        "tags": tags,
        "algorithm": "tensorboard",
        "config": {"folder": str(folder)},
    }
    opened = begin(server, {"id": run, "project": project, "nonce": "import", **described})
    count = last = 0
    with TemporaryDirectory() as scratch:
        for file in sorted(folder.glob(PATTERN)):
            producer = hashlib.sha256(file.name.encode()).hexdigest()[:16]
            spool = SpoolWriter(Path(scratch) / f"{producer}.jsonl")
            envelope = {"run": run, "attempt": opened.attempt, "producer": producer}
            for moment, step, values in scalars_of(file):
                event = {"type": "metrics", "step": step, "values": values, "time": moment}
                _append(spool, envelope, event)
                count, last = count + len(values), max(last, step)
            _deliver(spool, server, run)
        spool = SpoolWriter(Path(scratch) / "end.jsonl")
        end = {"type": "status", "state": "finished", "iteration": last, "message": "", "facts": {}}
        _append(
            spool, {"run": run, "attempt": opened.attempt, "producer": "end"}, end | {"time": time.time()}
        )
        _deliver(spool, server, run)
    return run, count


def scalars_of(file: Path) -> Iterator[tuple[float, int, dict[str, float]]]:
    """(seconds since the epoch, step, values by tag) of an event file, in its order; what is no scalar is left out."""
    try:
        from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
        from tensorboard.util import tensor_util
    except ImportError as error:
        raise TroupeError(
            'reading event files needs TensorBoard: pip install "troupe[tensorboard]"'
        ) from error
    clean = Scalars()
    for event in EventFileLoader(str(file)).Load():
        values: dict[str, Any] = {}
        for value in event.summary.value:
            if value.metadata.plugin_data.plugin_name == "scalars":
                values[value.tag] = float(tensor_util.make_ndarray(value.tensor).item())
        if values:
            yield event.wall_time, event.step, clean.flat(values)


def _append(spool: SpoolWriter, envelope: dict[str, Any], event: dict[str, Any]) -> None:
    spool.append(encode(envelope)[:-1] + b',"seq":', b"," + encode(event)[1:] + b"\n")


def _deliver(spool: SpoolWriter, server: Server, run: str) -> None:
    spool.close()
    uploader = SpoolUploader(
        spool.path, HttpChannel(server.address(f"/api/v1/runs/{run}/events/"), server.token)
    )
    try:
        while uploader.step():
            pass
    finally:
        uploader.close()
