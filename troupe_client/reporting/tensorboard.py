"""Import TensorBoard's event files: each folder with event files is one run, as in TensorBoard.

A repeated import adds new values only: run, producer and seq are functions of folder, file and value.
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
    """Return the folders with event files at or below `root`. Raises TroupeError if there is none."""
    folders = sorted({path.parent for path in root.rglob(PATTERN) if path.is_file()})
    if not folders:
        raise TroupeError(f"there are no TensorBoard event files (*tfevents*) below {root}")
    return folders


def stable_id(folder: Path) -> str:
    """The run id of a folder: a hash of its resolved path."""
    number = int.from_bytes(hashlib.sha256(str(folder.resolve()).encode()).digest(), "big")
    return "".join(ALPHABET[number // len(ALPHABET) ** position % len(ALPHABET)] for position in range(12))


def import_folder(server: Server, folder: Path, project: str, name: str, tags: list[str]) -> tuple[str, int]:
    """Deliver the scalars of one folder. Returns the id of the run and the number of values.

    Raises TroupeError (the server refuses, or TensorBoard is not installed), Undelivered.
    """
    run = stable_id(folder)
    description = {
        "name": name[:120],
        "tags": tags,
        "algorithm": "tensorboard",
        "config": {"folder": str(folder)},
    }
    opened = begin(server, {"id": run, "project": project, "nonce": "import", **description})
    count = last = 0
    with TemporaryDirectory() as scratch:
        for file in sorted(folder.glob(PATTERN)):
            producer = hashlib.sha256(file.name.encode()).hexdigest()[:16]
            spool = SpoolWriter(Path(scratch) / f"{producer}.jsonl")
            envelope = {"run": run, "attempt": opened.attempt, "producer": producer}
            for time_written, step, values in scalars_of(file):
                event = {"type": "metrics", "step": step, "values": values, "time": time_written}
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
    """Yield (seconds since the epoch, step, values by tag) of an event file, in its order. Only scalars are read."""
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
