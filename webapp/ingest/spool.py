"""Stores the events that a dead run left on disk, if its folder is visible to this process."""

import logging
from pathlib import Path

from webapp.ingest.errors import IngestRejected
from webapp.ingest.services import batch_store
from workers.telemetry.delivery import ServerResponse, SpoolUploader, Undelivered

log = logging.getLogger(__name__)


class DirectChannel:
    """Stores batches directly, without a server in between."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id

    def post(self, data: bytes) -> ServerResponse:
        """Store one batch in the database; the response is that of the HTTP endpoint."""
        try:
            answer = batch_store(self._run_id, data, "zstd")
        except IngestRejected as rejected:
            return ServerResponse(rejected.status, rejected.payload)
        return ServerResponse(200, {"acknowledged": answer.acknowledged, "command": answer.command})

    def close(self) -> None:
        """Do nothing: there is no connection."""


def spool_store(run_id: str, folder: Path) -> bool:
    """Store every event of the spools in `folder` that is not stored yet. Events that cannot be stored stay on disk;
    returns whether there are none.
    """
    whole = True
    for path in sorted(folder.glob("*.jsonl")):
        if path.name.endswith(".rejected.jsonl"):
            continue
        courier = SpoolUploader(path, DirectChannel(run_id))
        try:
            while courier.step():
                pass
        except (Undelivered, OSError) as error:
            whole = False
            log.warning("run %s: the spool %s was not stored completely: %s", run_id, path.name, error)
        finally:
            courier.close()
    return whole
