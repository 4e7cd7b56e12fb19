"""The common frame of a run's pages: heading, tabs, buttons."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.urls import reverse

from webapp.accounts.models import User
from webapp.accounts.permissions import Level, Person, Visitor, member_id
from webapp.agents.registry import agent_pages
from webapp.agents.rewards import return_label
from webapp.runs.acts import ACTS
from webapp.runs.models import INACTIVE_STATES, Run, RunSource, RunState
from webapp.runs.selectors import parent_shown, summary_shown
from webapp.runs.states import RESUMABLE

SHARED_TABS = ("overview", "curves", "transcripts")
"""Pages of a run available to visitors with a share link; see webapp/shares/kinds.py."""


TAB_DOCS = {"overview": "curves", "logs": "logs", "config": "configuration"}
"""Pages of the documentation about tabs with another name."""


_FACTS = """
SELECT facts->>'resume_note', facts->>'gateway',
  (SELECT count(*) FROM checkpoints_checkpoint WHERE run_id = runs_run.id AND NOT removed),
  (SELECT level FROM accounts_membership WHERE project_id = runs_run.project_id AND user_id = %s)
FROM runs_run WHERE id = %s
"""


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
    facts = _facts(user, run)
    level = facts["level"]
    return {
        "place": "runs",
        "project_slug": run.project.slug,
        "run": run,
        "parent": parent_shown(user, run),
        "tab": tab,
        "facts": facts,
        "tabs": [
            tab
            for tab in _tabs(run, facts["checkpoints"])
            if not isinstance(user, Visitor) or tab.name in SHARED_TABS
        ],
        "acts": ACTS,
        "act_state": _act_state(run),
        "can_edit": level in (Level.OWNER, Level.EDITOR),
        "owner": level == Level.OWNER,
        "ended": run.state in INACTIVE_STATES,
        "algorithm": run.config["algorithm"]["type"].replace("_", "-").upper(),
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


def _facts(user: Person, run: Run) -> dict[str, Any]:
    """Return the few reported facts on all pages, the number of stored checkpoints, and the user's level, by one query."""
    names = ("resume_note", "gateway", "checkpoints", "level")
    with connection.cursor() as database:
        database.execute(_FACTS, [member_id(user, run.project), run.pk])
        return dict(zip(names, database.fetchone() or ("", "", 0, None), strict=True))


def _tabs(run: Run, checkpoints: int) -> list[Tab]:
    findings = sum(run.finding_counts.values())
    return [
        _tab(run, "overview", "runs:detail"),
        _tab(run, "curves", "runs:curves", run.series_count),
        _tab(
            run,
            "transcripts",
            "transcripts:list",
            sum(run.episode_counts.values()),
            agent_pages(run.config).episodes,
        ),
        _tab(run, "timeline", "timeline:page"),
        _tab(run, "health", "health:page", findings),
        _tab(run, "checkpoints", "runs:checkpoints", checkpoints),
        _tab(run, "artifacts", "artifacts:run"),
        _tab(run, "logs", "runs:logs"),
        _tab(run, "config", "runs:config"),
    ]


def _tab(run: Run, name: str, address: str, count: int | None = None, label: str = "") -> Tab:
    return Tab(name, (label or name).capitalize(), reverse(address, args=[run.pk]), count)


def _team(config: Mapping[str, Any]) -> str:
    roles = config["team"]["roles"]
    policies = {role["policy"] for role in roles.values()}
    return f"{_counted(len(roles), 'role')}, {_counted(len(policies), 'policy', 'policies')}"


def _counted(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def is_resumable(run: Run) -> bool:
    """Whether users may resume it now."""
    return run.state in RESUMABLE and run.source != RunSource.CLIENT
