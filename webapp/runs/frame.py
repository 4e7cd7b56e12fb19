"""The common frame of a run's pages: heading, tabs, and buttons by state."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.db.models import JSONField
from django.db.models.expressions import RawSQL
from django.urls import reverse

from webapp.accounts.models import User
from webapp.accounts.permissions import Level, Person, Visitor
from webapp.accounts.selectors import membership_level
from webapp.agents.registry import agent_pages
from webapp.agents.rewards import return_label
from webapp.runs.models import INACTIVE_STATES, Run, RunState
from webapp.runs.selectors import LARGEST, parent_shown, run_get, summary_shown
from webapp.runs.states import RESUMABLE


@dataclass(frozen=True)
class Act:
    """A button of a run's page."""

    name: str
    label: str
    help: str
    states: tuple[str, ...]
    """States in which it is shown; "pausing" is a stopping run with a requested pause."""
    style: str = ""
    disabled: bool = False
    confirm: str = ""
    """Text of the confirmation dialog; empty: no dialog."""


ACTS = (
    Act("pause", "Pause", "Complete the iteration, write a checkpoint, end the run and release its devices; Resume continues from there",
        ("running",)),
    Act("stop", "Stop", "Complete the iteration, write a checkpoint and end the run; it can be resumed",
        ("queued", "starting", "running"), "danger"),
    Act("stop", "Stopping …", "The run completes its iteration, writes a checkpoint and ends", ("stopping",), "", True),
    Act("pause", "Pausing …", "The run completes its iteration, writes a checkpoint and ends; Resume continues from there",
        ("pausing",), "", True),
    Act("end_now", "End now", "Do not wait for the current iteration: write a checkpoint of the last completed one, and end",
        ("stopping", "pausing"), "danger",
        confirm="End this run now? The work of the current iteration is lost. A checkpoint of the last completed "
        "iteration is written if possible within a minute."),
    Act("resume", "Resume", "Start a new attempt from the last intact checkpoint; the checkpoints tab resumes from an earlier one",
        ("paused", "stopped", "failed"), "primary"),
)  # fmt: skip

PROGRAM_ACTS = (
    Act("stop", "Stop", "Request the program to end: its should_stop() is true", ("running",), "danger"),
    Act("stop", "Stopping …", "The program has been requested to end", ("stopping",), "", True),
)
"""Actions of the run of a custom program, which the server neither pauses, ends nor starts again."""


SHARED_TABS = ("overview", "curves", "transcripts", "media")
"""Pages of a run available to visitors with a share link; see webapp/shares/access.py."""


TAB_DOCS = {"overview": "curves", "logs": "logs", "config": "configuration"}
"""Pages of the documentation about tabs with another name."""


_FRAME = """
jsonb_build_object(
  'resume_note', runs_run.facts->>'resume_note',
  'gateway', runs_run.facts->>'gateway',
  'checkpoints', (SELECT count(*) FROM checkpoints_checkpoint WHERE run_id = runs_run.id AND NOT removed),
  'timeline', EXISTS (SELECT FROM runs_phase WHERE run_id = runs_run.id) OR EXISTS (SELECT FROM timeline_batch WHERE run_id = runs_run.id),
  'artifacts', EXISTS (SELECT FROM artifacts_artifactversion WHERE run_id = runs_run.id)
    OR EXISTS (SELECT FROM artifacts_artifactuse WHERE run_id = runs_run.id),
  'played', (SELECT last_value::text FROM metrics_series WHERE run_id = runs_run.id AND key = 'progress/episodes'),
  'forks', EXISTS (SELECT FROM runs_run fork WHERE fork.parent_id = runs_run.id),
  'facts', CASE WHEN %s AND length(runs_run.facts::text) <= %s THEN runs_run.facts END)
"""


_ABSENT = {
    "resume_note": "",
    "gateway": "",
    "checkpoints": 0,
    "timeline": False,
    "artifacts": False,
    "played": None,
    "forks": False,
    "facts": None,
}
"""The frame of a run that was deleted in between."""


@dataclass(frozen=True)
class Tab:
    """One of the run's pages."""

    name: str
    label: str
    url: str
    count: int | None = None

    @property
    def docs(self) -> str:
        """Return the page of the documentation about it."""
        return TAB_DOCS.get(self.name, self.name)


def run_context(user: User | AnonymousUser, run: Run, tab: str, **data: Any) -> dict[str, Any]:
    """Return the context shared by all run pages; `data` is passed to the browser with the summary and the cursor."""
    facts = frame_of(run)
    level = membership_level(user, run.project)
    return {
        "place": "runs",
        "project_slug": run.project.slug,
        "run": run,
        "parent": parent_shown(user, run),
        "tab": tab,
        "facts": facts,
        "tabs": [
            tab for tab in _tabs(run, facts, tab) if not isinstance(user, Visitor) or tab.name in SHARED_TABS
        ],
        "acts": PROGRAM_ACTS if run.is_custom else ACTS,
        "act_state": _act_state(run),
        "can_edit": level in (Level.OWNER, Level.EDITOR),
        "owner": level == Level.OWNER,
        "ended": run.state in INACTIVE_STATES,
        "algorithm": _algorithm(run.config),
        "custom": run.is_custom,
        "counted": "step" if run.is_custom else "iteration",
        "team": _team(run.config),
        "agents": agent_pages(run.config),
        "return_heading": return_label(run.config),
        "data": {
            "id": run.pk,
            "cursor": run.event_count,
            "summary": summary_shown(user, run),
            "charts": None,
            **data,
        },
    }


def _act_state(run: Run) -> str:
    """Return the state that determines the buttons; see `Act.states`."""
    return "pausing" if run.state == RunState.STOPPING and run.stop_requested == "pause" else run.state


def framed_run(user: Person, run_id: str, whole: bool = False) -> Run:
    """Return one run with what its frame needs, by the query that reads the run; with `whole` also all reported facts (`facts_of`).

    Raises Http404, also for projects that are not visible to the user.
    """
    frame = RawSQL(_FRAME, (whole, LARGEST), output_field=JSONField())  # the text is a constant
    run = run_get(user, run_id, frame=frame)
    facts = frame_of(run)["facts"]
    if facts is not None:
        run.facts = facts
    return run


def frame_of(run: Run) -> dict[str, Any]:
    """Return the few reported facts on all pages, the number of stored checkpoints, whether there are forks, and the number of
    training episodes played as text (a metric may be NaN), None if it is not reported. They are read once for a run.
    """
    if "frame" not in vars(run):
        with connection.cursor() as database:
            database.execute(f"SELECT {_FRAME} FROM runs_run WHERE id = %s", [False, LARGEST, run.pk])
            (text,) = database.fetchone() or ("{}",)
        vars(run)["frame"] = orjson.loads(text)
    read: dict[str, Any] = vars(run)["frame"]
    return _ABSENT | read


def _tabs(run: Run, facts: Mapping[str, Any], here: str) -> list[Tab]:
    """Return the tabs; those that can be empty only if there is something on them, or if it is this page."""
    episodes, findings = sum(run.episode_counts.values()), sum(run.finding_counts.values())
    empty = {
        "transcripts": not episodes,
        "media": not run.media_count,
        "timeline": not facts["timeline"],
        "checkpoints": not facts["checkpoints"],
        "artifacts": not facts["artifacts"],
    }
    tabs = [
        _tab(run, "overview", "runs:detail"),
        _tab(run, "curves", "runs:curves", run.series_count),
        _tab(run, "transcripts", "transcripts:list", episodes, agent_pages(run.config).episodes),
        _tab(run, "media", "media:page", run.media_count),
        _tab(run, "timeline", "timeline:page"),
        _tab(run, "health", "health:page", findings),
        _tab(run, "checkpoints", "runs:checkpoints", facts["checkpoints"]),
        _tab(run, "artifacts", "artifacts:run"),
        _tab(run, "logs", "runs:logs"),
        _tab(run, "config", "runs:config"),
    ]
    return [tab for tab in tabs if tab.name == here or not empty.get(tab.name)]


def _tab(run: Run, name: str, address: str, count: int | None = None, label: str = "") -> Tab:
    return Tab(name, (label or name).capitalize(), reverse(address, args=[run.pk]), count)


UNNAMED = "external"
"""Algorithm and environment of a program that has not named its own (webapp.scheduling.client_runs)."""


def _algorithm(config: Mapping[str, Any]) -> str:
    name = str(config["algorithm"]["type"])
    return "" if name == UNNAMED else name.replace("_", "-").upper()


def _team(config: Mapping[str, Any]) -> str:
    """Return the numbers of roles and policies; empty for a program without roles."""
    roles = config["team"]["roles"]
    if not roles:
        return ""
    policies = {role["policy"] for role in roles.values()}
    return f"{_counted(len(roles), 'role')}, {_counted(len(policies), 'policy', 'policies')}"


def _counted(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def is_resumable(run: Run) -> bool:
    """Whether users may resume it now."""
    return run.state in RESUMABLE and not run.is_custom
