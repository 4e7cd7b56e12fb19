"""`troupe sync`: deliver the events that a dead run left on this machine's disk."""

from training_core.errors import TroupeError
from troupe_client.cli.output import console
from troupe_client.reporting.opening import begin_from_folder
from troupe_client.reporting.sync import Shipped, ship_spool, undelivered
from troupe_client.server_api import Server, home
from workers.telemetry.delivery import Undelivered


def ship_run(server: Server, run_id: str) -> Shipped:
    """Deliver every spool of a run. Raises TroupeError if there is none, or if the server refuses it."""
    runs = home() / "runs"
    folder = runs / run_id
    if folder.resolve().parent != runs.resolve() or not folder.is_dir():
        raise TroupeError(f"there is no run folder {folder}; set TROUPE_HOME to the data folder of the run")
    begin_from_folder(folder, server)
    try:
        with console.status(f"delivering {undelivered(folder)} events"):
            return ship_spool(folder, server.address(f"/api/v1/runs/{run_id}/events/"), server.token)
    except Undelivered as error:
        raise TroupeError(f"{error}. No event is lost: repeat the command to continue") from error
