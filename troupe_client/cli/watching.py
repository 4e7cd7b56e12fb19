"""`troupe watch`: metrics of a run in the terminal, refreshed until it ends."""

import time
from typing import Any

from rich.live import Live
from rich.text import Text

from troupe_client.cli.output import console, print_wide
from troupe_client.cli.show import ENDED, run_panel
from troupe_client.server_api import Server, ServerAway, run_path

WATCHED = (
    "eval/success", "eval_sampled/success", "train/return", "rollout/tokens_per_second",
    "eval/return", "eval_sampled/return", "rollout/env_steps_per_second",
)  # fmt: skip
"""Metrics that are shown if the run has them, before its headline metrics."""
MOST_HEADLINES = 6


def watch_run(server: Server, run_id: str, interval: float) -> None:
    """Poll every `interval` seconds until the run ends or Ctrl-C. Waits for a server that does not answer.

    Without a terminal, prints the run at the beginning and at the end only. Raises ServerFailure.
    """
    run, panel = read_panel(server, run_id)
    if run["state"] in ENDED:
        return print_wide(panel)
    with Live(panel, console=console, auto_refresh=False) as live:
        while run["state"] not in ENDED:
            try:
                time.sleep(interval)
                run, panel = read_panel(server, run_id)
            except ServerAway as away:
                live.update(Text(f"{away}. Waiting for it ..."), refresh=True)
                continue
            except KeyboardInterrupt:
                return None
            live.update(panel, refresh=True)


def read_panel(server: Server, run_id: str) -> tuple[dict[str, Any], Any]:
    """The run, and what the terminal shows of it."""
    run: dict[str, Any] = server.call(run_path(run_id))
    keys = dict.fromkeys([*WATCHED, *run.get("headline_names", [])[:MOST_HEADLINES]])
    series = server.call(run_path(run_id, "series/"), keys=",".join(keys), points=200)["series"]
    lines = server.call(run_path(run_id, "logs/"), limit=5)["results"]
    return run, run_panel(run, series, lines)
