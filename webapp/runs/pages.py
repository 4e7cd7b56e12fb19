"""What the pages of runs show, gathered from the selectors."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.urls import reverse

from webapp.accounts.models import User
from webapp.accounts.permissions import Visitor, can_edit, is_owner
from webapp.checkpoints.selectors import checkpoint_latest, checkpoints_list
from webapp.experiments.commands import curl_command, launch_command
from webapp.experiments.differences import changes
from webapp.metrics.models import Series
from webapp.runs.acts import ACTS
from webapp.runs.charts import Panel, axes_of
from webapp.runs.facts import packages_of
from webapp.runs.marks import KINDS, Mark
from webapp.runs.models import ENDED_STATES, LogLine, Run, RunSource, RunState
from webapp.runs.notes import run_notes_list
from webapp.runs.selectors import runs_visible, summary_shown
from webapp.runs.states import RESUMABLE

ENDED = (*ENDED_STATES, RunState.PAUSED)
EVENTS = 8
"""Events that the overview lists."""
SHARED_TABS = ("overview", "curves", "transcripts")
"""What whoever comes by a share link sees of a run; see webapp/shares/kinds.py."""
TAIL = 500
"""Log lines that the page begins with."""
LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True)
class Tab:
    """One of the run's pages."""

    name: str
    label: str
    url: str
    count: int | None = None


def run_context(user: User | AnonymousUser, run: Run, tab: str, **data: Any) -> dict[str, Any]:
    """What every page of a run has; `data` goes to the browser beside the summary and the cursor."""
    return {
        "place": "runs",
        "project_slug": run.project.slug,
        "run": run,
        "tab": tab,
        "tabs": [each for each in _tabs(run) if not isinstance(user, Visitor) or each.name in SHARED_TABS],
        "acts": ACTS,
        "can_edit": can_edit(user, run.project),
        "ended": run.state in ENDED,
        "algorithm": run.config["algorithm"]["type"].replace("_", "-").upper(),
        "team": _team(run.config),
        "data": {
            "id": run.pk,
            "cursor": run.event_count,
            "summary": summary_shown(user, run),
            "charts": None,
            **data,
        },
    }


def _tabs(run: Run) -> list[Tab]:
    kept = run.checkpoints.filter(removed=False).count()
    findings = sum(run.finding_counts.values())
    return [
        _tab(run, "overview", "runs:detail"),
        _tab(run, "curves", "runs:curves", Series.objects.filter(run=run).count()),
        _tab(run, "transcripts", "transcripts:list", run.episodes.count()),
        _tab(run, "timeline", "timeline:page"),
        _tab(run, "health", "health:page", findings),
        _tab(run, "checkpoints", "runs:checkpoints", kept),
        _tab(run, "logs", "runs:logs"),
        _tab(run, "config", "runs:config"),
    ]


def _tab(run: Run, name: str, address: str, count: int | None = None) -> Tab:
    return Tab(name, name.capitalize(), reverse(address, args=[run.pk]), count)


def _team(config: Mapping[str, Any]) -> str:
    roles = config["team"]["roles"]
    policies = {role["policy"] for role in roles.values()}
    return f"{_counted(len(roles), 'role')}, {_counted(len(policies), 'policy', 'policies')}"


def _counted(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def checkpoint_context(run: Run) -> dict[str, Any]:
    """The table of checkpoints."""
    settings_ = run.config["checkpoint"]
    return {
        "checkpoints": checkpoints_list(run),
        "best_of": settings_["best_of"],
        "keep": settings_["keep"],
        "every": settings_["every"],
        "folder": f"TROUPE_HOME/runs/{run.pk}",  # where that is, is the business of the server's owner
    }


def curves_data(keys: Iterable[str], panels: Iterable[Panel], marks: Iterable[Mark]) -> dict[str, Any]:
    """What the browser draws charts from, before it has read any series; `keys` are all of the run's metrics."""
    return {
        "charts": [panel.json() for panel in panels],
        "axes": {name: key for name, (_, key) in axes_of(keys).items() if key},
        "marks": [mark.json() for mark in marks],
        "whole": True,
    }


def tools_context(keys: Iterable[str]) -> dict[str, Any]:
    """What the tools above charts offer."""
    return {"axes": {name: label for name, (label, _) in axes_of(keys).items()}, "kinds": KINDS}


def events_context(user: User | AnonymousUser, run: Run, marks: Sequence[Mark]) -> dict[str, Any]:
    """What happened, newest first, and the notes in full."""
    happened = sorted((mark for mark in marks if mark.kind != "note"), key=lambda mark: -mark.time)
    return {
        "happened": happened[:EVENTS],
        "happened_before": max(0, len(happened) - EVENTS),
        "run_notes": run_notes_list(run),
        "person": user,
        "owner": is_owner(user, run.project),
    }


def log_tail(run: Run, search: str = "", level: str = "") -> list[LogLine]:
    """The last lines that fit, oldest first; each with the mark by which the browser knows it again."""
    lines = run.log_lines.order_by("-id")
    if level:
        lines = lines.filter(level__in=LEVELS[LEVELS.index(level) :])
    if search:
        lines = lines.filter(message__icontains=search) | lines.filter(source__icontains=search)
    tail = list(reversed(lines[:TAIL]))
    for line in tail:
        line.mark = f"{int(line.time.timestamp() * 1000)} {line.source} {line.message}"  # type: ignore[attr-defined]
    return tail


def config_context(run: Run, toml: str, address: str) -> dict[str, Any]:
    """The config, what departs from the preset, and the words that launch it again."""
    changed = changes(run.preset, run.config) if run.preset else []
    overrides = {change.path: change.value for change in changed}
    return {
        "toml": toml,
        "changes": changed,
        "launch": launch_command(run.preset, overrides) if run.preset else "troupe launch run.toml",
        "curl": curl_command(address, run.preset, overrides, config=None if run.preset else run.config),
        "packages": packages_of(run),
        "edited": [attempt for attempt in run.attempts.order_by("number") if attempt.changes],
        "resumable": is_resumable(run),
        "kept": [row for row in checkpoints_list(run) if not (row.removed or row.damaged)],
        "last": checkpoint_latest(run),
    }


def is_resumable(run: Run) -> bool:
    """Whether people may resume it now."""
    return run.state in RESUMABLE and run.source != RunSource.CLIENT


def tags_of(user: User | AnonymousUser) -> list[str]:
    """Tags of the user's latest runs, most used first."""
    counted: dict[str, int] = {}
    for tags in runs_visible(user).order_by("-created_at").values_list("tags", flat=True)[:500]:
        for tag in tags:
            counted[tag] = counted.get(tag, 0) + 1
    return sorted(counted, key=lambda tag: (-counted[tag], tag))[:50]
