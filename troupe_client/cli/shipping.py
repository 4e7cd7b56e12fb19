"""`troupe sync`: deliver the events that a dead run left on this machine's disk."""

from pathlib import Path

from training_core.errors import TroupeError
from troupe_client.cli.output import console
from troupe_client.reporting.opening import begin_from_folder, data_folder
from troupe_client.reporting.sync import Shipped, ship_spool, undelivered
from troupe_client.server_api import Server, home
from workers.telemetry.delivery import Undelivered


def _run_folder(run_id: str) -> Path:
    """The folder of a run: of a program, where `troupe.init` stores its events, or of the server on this machine."""
    places = [base / "runs" for base in (data_folder(""), home())]
    for runs in places:
        folder = runs / run_id
        if folder.resolve().parent == runs.resolve() and folder.is_dir():
            return folder
    raise TroupeError(
        f"there is no run folder {places[0] / run_id}; set TROUPE_HOME to the data folder of the run"
    )


def ship_run(server: Server, run_id: str) -> Shipped:
    """Deliver every spool of a run. Raises TroupeError if there is none, or if the server refuses it."""
    folder = _run_folder(run_id)
    begin_from_folder(folder, server)
    try:
        with console.status(f"delivering {undelivered(folder)} events"):
            return ship_spool(folder, server.address(f"/api/v1/runs/{run_id}/events/"), server.token)
    except Undelivered as error:
        raise TroupeError(f"{error}. No event is lost: repeat the command to continue") from error
