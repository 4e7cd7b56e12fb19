"""`troupe watch` and `troupe logs`: metrics and log of a run in the terminal, until it ends."""

import sys
import time
from typing import Any

from rich.live import Live
from rich.text import Text

from training_core.json_lines import json_line
from troupe_client.cli.output import console, errors, print_line, print_wide, visible
from troupe_client.cli.show import ENDED, TONES, log_line, run_panel
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


POLL_SECONDS = 1.0
PAGE = 2000
"""Lines of one read after the first one."""


def print_log(
    server: Server, run_id: str, limit: int, *, follow: bool, as_json: bool, **chosen: str | None
) -> int:
    """Print the last `limit` lines that match `chosen` (source, level, q), and later ones until the run ends if `follow`.

    Returns the exit status of a followed run: 1 if it failed, otherwise 0. Waits for a server that does not answer.
    Raises ServerFailure.
    """
    last: int | None = None
    while True:
        try:
            run = (
                server.call(run_path(run_id)) if follow else None
            )  # before the lines: none is missed at the end
            most = limit if last is None else PAGE
            lines = server.call(run_path(run_id, "logs/"), after=last, limit=most, **chosen)["results"]
        except ServerAway:
            if not follow:
                raise
            time.sleep(POLL_SECONDS)
            continue
        except KeyboardInterrupt:
            return 0
        for line in lines:
            _print(line, as_json)
            last = line["id"]
        last = last or 0  # without lines so far, the next read begins with the first line
        if run is None:
            return 0
        if not lines and run["state"] in ENDED:
            return _ended(run, as_json)
        try:
            time.sleep(0.0 if len(lines) == most else POLL_SECONDS)
        except KeyboardInterrupt:
            return 0


def _print(line: dict[str, Any], as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json_line(line))
        sys.stdout.flush()
    else:
        console.print(log_line(line), soft_wrap=True)


def _ended(run: dict[str, Any], as_json: bool) -> int:
    failed = run["state"] == "failed"
    parts = [f"{run['state']} after iteration {run['iteration']}", run["reason"], run.get("remedy") or ""]
    text = ": ".join(filter(None, parts))
    if as_json:
        errors.print(visible(text), markup=False, highlight=False, soft_wrap=True)
    else:
        print_line(text, TONES[run["state"]])
    return int(failed)
