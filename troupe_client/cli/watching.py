"""`troupe watch`: a run's figures in the terminal, refreshed until it ends."""

import time
from typing import Any

from rich.live import Live
from rich.text import Text

from troupe_client.cli.show import ENDED, console, run_panel
from troupe_client.server_api import Server, ServerAway, run_path

WATCHED = (
    "eval/success", "eval_sampled/success", "train/return", "rollout/tokens_per_second",
    "eval/return", "eval_sampled/return", "rollout/env_steps_per_second",
)  # fmt: skip
"""Those of them that the run has."""


def watch_run(server: Server, run_id: str, interval: float, *, once: bool) -> None:
    """Look every `interval` seconds until the run ends or Ctrl-C. A server that is away is waited for.

    Where there is no terminal it is printed at the beginning and at the end only. Raises ServerFailure.
    """
    found, panel = look(server, run_id)
    if once or found["state"] in ENDED:
        return console.print(panel)
    with Live(panel, console=console, auto_refresh=False) as live:
        while found["state"] not in ENDED:
            try:
                time.sleep(interval)
                found, panel = look(server, run_id)
            except ServerAway as away:
                live.update(Text(f"{away}. Waiting for it ..."), refresh=True)
                continue
            except KeyboardInterrupt:
                return None
            live.update(panel, refresh=True)


def look(server: Server, run_id: str) -> tuple[dict[str, Any], Any]:
    """The run, and how it is shown."""
    found: dict[str, Any] = server.call(run_path(run_id))
    series = server.call(run_path(run_id, "series/"), keys=",".join(WATCHED), points=200)["series"]
    lines = server.call(run_path(run_id, "logs/"), limit=5)["results"]
    return found, run_panel(found, series, lines)
