"""`troupe sync`: what a dead run left on this machine's disk, delivered."""

from training_core.errors import TroupeError
from troupe_client.cli.show import console
from troupe_client.reporting.opening import ask_again
from troupe_client.reporting.sync import Shipped, ship_spool, undelivered
from troupe_client.server_api import Server, home
from workers.telemetry.delivery import Undelivered


def ship_run(server: Server, run_id: str) -> Shipped:
    """Deliver every spool of a run. Raises TroupeError where there is none, or where the server refuses."""
    runs = home() / "runs"
    folder = runs / run_id
    if folder.resolve().parent != runs.resolve() or not folder.is_dir():
        raise TroupeError(f"there is no run folder {folder}; set TROUPE_HOME to where the run was made")
    ask_again(folder, server)
    try:
        with console.status(f"delivering {undelivered(folder)} events"):
            return ship_spool(folder, server.address(f"/api/v1/runs/{run_id}/events/"), server.token)
    except Undelivered as error:
        raise TroupeError(f"{error}. Nothing is lost: run it again, it goes on where it stopped") from error
