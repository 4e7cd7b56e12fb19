"""Context of the run pages, from the selectors."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.contrib.auth.models import AnonymousUser

from webapp.accounts.models import User
from webapp.checkpoints.services import checkpoint_to_resume, checkpoints_list
from webapp.experiments.commands import curl_command, launch_command
from webapp.provenance.services import provenance_context
from webapp.run_pages.ancestry import Lead
from webapp.run_pages.charts import Panel, axes_of
from webapp.run_pages.marks import KINDS, Mark
from webapp.runs.config_differences import LABELS, changes, config_again
from webapp.runs.frame import is_resumable
from webapp.runs.logs import LineFilter, log_lines
from webapp.runs.models import LogLine, Run, RunNote
from webapp.runs.selectors import attempts_of

EVENTS = 8
"""Maximum number of events on the overview."""
TAIL = 500
"""Initial number of log lines."""
TRACEBACK = "Traceback (most recent call last)"


def checkpoint_context(run: Run) -> dict[str, Any]:
    """Return the context of the table of checkpoints."""
    settings_ = run.config["checkpoint"]
    return {
        "checkpoints": checkpoints_list(run),
        "best_of": settings_["best_of"],
        "keep": settings_["keep"],
        "every": settings_["every"],
        "folder": f"TROUPE_HOME/runs/{run.pk}",  # the absolute path is only known to the server's owner
    }


def curves_data(
    config: Mapping[str, Any],
    keys: Iterable[str],
    panels: Iterable[Panel],
    marks: Iterable[Mark],
    leads: Iterable[Lead] = (),
) -> dict[str, Any]:
    """Return the data for drawing charts before any series is loaded; `keys` are all of the run's metrics."""
    return {
        "charts": [panel.json() for panel in panels],
        "axes": {name: key for name, (_, key) in axes_of(keys, config).items() if key},
        "marks": [mark.json() for mark in marks],
        "leads": [lead.json() for lead in leads],
        "whole": True,
    }


def tools_context(keys: Iterable[str], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the tools above charts."""
    return {"axes": {name: label for name, (label, _) in axes_of(keys, config).items()}, "kinds": KINDS}


def events_context(
    user: User | AnonymousUser, notes: Sequence[RunNote], marks: Sequence[Mark]
) -> dict[str, Any]:
    """Return the events, newest first, and the complete notes."""
    happened = sorted((mark for mark in marks if mark.kind != "note"), key=lambda mark: -mark.time)
    return {
        "happened": happened[:EVENTS],
        "happened_before": max(0, len(happened) - EVENTS),
        "run_notes": notes,
        "person": user,
    }


def log_tail(run: Run, chosen: LineFilter) -> tuple[list[LogLine], bool]:
    """Return the last matching lines, oldest first, and whether there are earlier ones. The last traceback, or else the last
    error, is also an anchor.
    """
    lines = log_lines(run, limit=TAIL + 1, chosen=chosen)
    tail = lines[-TAIL:]
    errors = [line for line in tail if line.level == "error"]
    failure = next(
        (line for line in reversed(errors) if TRACEBACK in line.message), errors[-1] if errors else None
    )
    for line in tail:
        line.anchor = "traceback" if line is failure else ""  # type: ignore[attr-defined]
    return tail, len(lines) > TAIL


def config_context(run: Run, toml: str, address: str, attempt: str = "") -> dict[str, Any]:
    """Return the config, its differences from the preset, and the command that launches it again."""
    config, checkpoints = config_again(run), checkpoints_list(run)
    changed = changes(run.preset, config) if run.preset else []
    overrides = {change.path: change.value for change in changed}
    body = {"preset": run.preset, "overrides": overrides} if run.preset else {"config": config}
    return {
        "toml": toml,
        "changes": [change for change in changed if change.path not in LABELS],
        "launch": launch_command(run.preset, overrides) if run.preset else "troupe launch run.toml",
        "curl": curl_command(address, body),
        "record": provenance_context(run, attempt),
        "edited": [attempt for attempt in attempts_of(run) if attempt.changes],
        "resumable": is_resumable(run),
        "kept": [row for row in checkpoints if not (row.removed or row.damaged)],
        "last": checkpoint_to_resume(checkpoints, attempts_of(run)),
    }
