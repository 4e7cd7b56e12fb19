"""Queries of runs, limited to the user's own projects; summaries, and the facts reported by drivers.

Facts are packages, base models and the like. Their size is limited on writing, and again on reading, because earlier versions stored them
without a limit. `Run.objects` does not load them (webapp/runs/models.py).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import orjson
from django.db import connection
from django.db.models import F, Prefetch, Q, QuerySet
from django.http import Http404
from django.urls import reverse

from webapp.accounts.models import Project, User
from webapp.accounts.permissions import Person, Visitor
from webapp.accounts.selectors import projects_visible
from webapp.agents.rewards import return_label
from webapp.common.compiled import CompiledQuery
from webapp.runs.costs import eta_seconds
from webapp.runs.logs import server_says
from webapp.runs.models import Attempt, Run
from workers.telemetry.limits import MAX_DATA

LARGEST = MAX_DATA * 2
"""Maximum number of characters of facts that are read whole: PostgreSQL's text format adds blanks."""
LARGEST_PART, MOST_PARTS = 16 << 10, 16
LOST_EVENTS = "lost_events"
"""Fact: number of events that are lost on a full disk, by producer."""
"""Maximum size and number of the parts shown of facts that are too large."""
_SIZED = "SELECT length(facts::text), CASE WHEN length(facts::text) <= %s THEN facts::text END FROM runs_run WHERE id = %s"
_PARTS = """
SELECT key, value::text FROM runs_run, jsonb_each(facts)
WHERE id = %s AND length(value::text) <= %s ORDER BY length(value::text), key LIMIT %s
"""


def facts_of(run: Run) -> dict[str, Any]:
    """Return the run's facts. For facts that are too large, the small parts, and under "cut" a description of the rest."""
    if "facts" in run.__dict__:
        return dict(run.facts) if isinstance(run.facts, dict) else {}
    with connection.cursor() as database:
        database.execute(_SIZED, [LARGEST, run.pk])
        size, text = database.fetchone() or (0, None)
        if text is not None:
            facts = orjson.loads(text)
            return facts if isinstance(facts, dict) else {}
        if not size:
            return {}
        database.execute(_PARTS, [run.pk, LARGEST_PART, MOST_PARTS])
        parts = {key: orjson.loads(value) for key, value in database.fetchall()}
    return parts | {"cut": f"{size} characters are stored; parts of more than {LARGEST_PART} are omitted"}


def lost_events(run: Run) -> int:
    """Return the number of events that the run's programs have lost on a full disk."""
    counts = Run.objects.filter(pk=run.pk).values_list(f"facts__{LOST_EVENTS}", flat=True).first()
    return sum(counts.values()) if isinstance(counts, dict) else 0


def packages_of(run: Run) -> dict[str, Any]:
    """Return package -> version of the driver; empty for invalid reports."""
    packages = facts_of(run).get("packages")
    return packages if isinstance(packages, dict) else {}


def facts_add(run: Run, attempt: int, reported: Mapping[str, Any]) -> None:
    """Merge a driver's report into the run's facts. If they become too large, only the latest are kept, with a line in the log.

    The caller saves the run.
    """
    merged = {**facts_of(run), **reported}
    if len(orjson.dumps(merged)) > MAX_DATA:
        merged = dict(reported)
        words = f"The facts of this run exceeded {MAX_DATA} bytes; earlier ones were deleted."
        server_says(run, attempt, words)
    run.facts = merged


def runs_visible(user: Person) -> QuerySet[Run]:
    """Return the runs of the user's projects, or those shared with a visitor, with the relations of `run_summary`."""
    mine = Q(project__in=projects_visible(user))
    if isinstance(user, Visitor):
        mine = Q(project=user.project, pk__in=user.runs)
    return _with_facts(Run.objects.filter(mine))


def demonstration_only(user: Person) -> bool:
    """Return whether the user sees no run other than the demonstration."""
    tags = list(Run.objects.filter(project__in=projects_visible(user)).values_list("tags", flat=True)[:2])
    return len(tags) == 1 and DEMONSTRATION in tags[0]


def runs_by_id(ids: Iterable[str]) -> dict[str, Run]:
    """Return runs by ids selected from `runs_visible`, with the relations of `run_summary`."""
    return _with_facts(Run.objects.all()).in_bulk(list(ids))


def _with_facts(runs: QuerySet[Run]) -> QuerySet[Run]:
    attempts = Prefetch("attempts", Attempt.objects.order_by("number"), to_attr="attempts_in_order")
    return runs.select_related("project", "owner").prefetch_related(attempts)


def run_get(user: Person, run_id: str, **also: Any) -> Run:
    """Return one run, with the values of the expressions `also`. Raises Http404, also for projects that are not visible to the user."""
    run = None if "\0" in run_id else runs_visible(user).annotate(**also).filter(pk=run_id).first()
    if run is None:
        raise Http404(f"Run '{run_id}' not found, or you do not have access.")
    return run


def run_for_summary(run_id: str) -> Run | None:
    """Return a run with the relations of `run_summary`, or None. Its project and owner have only their names; access is not checked."""
    run = _NAMED.first(run_id)
    if run is not None:
        database, names = run._state.db, vars(run)
        run.project = Project.from_db(database, ["id", "slug"], [run.project_id, names["project_slug"]])
        run.owner = User.from_db(database, ["id", "username"], [run.owner_id, names["owner_name"]])
    return run


_NAMED = CompiledQuery(
    lambda run_id: Run.objects.annotate(
        project_slug=F("project__slug"), owner_name=F("owner__username")
    ).filter(pk=run_id)
)


def parent_shown(user: Person, run: Run) -> Run | None:
    """Return the parent of a fork if the user may read it; visitors with a share link may not."""
    if run.parent_id is None or isinstance(user, Visitor):
        return None
    return runs_visible(user).filter(pk=run.parent_id).first()


def attempts_of(run: Run) -> list[Attempt]:
    """Return the attempts by number; those that were loaded with the run, if it is from `runs_visible`."""
    attempts: list[Attempt] | None = getattr(run, "attempts_in_order", None)
    return attempts_from(run, 1) if attempts is None else attempts


def attempts_from(run: Run, number: int) -> list[Attempt]:
    """Return the attempts from this one on, by number."""
    attempts = _ATTEMPTS(run.pk, number)
    for attempt in attempts:
        attempt.run = run
    return attempts


_ATTEMPTS = CompiledQuery(
    lambda run_id, number: Attempt.objects.filter(run=run_id).filter(number__gte=number).order_by("number")
)


PLAIN = (
    "id", "name", "state", "reason", "remedy", "stop_requested", "preset", "source", "tags", "priority", "archived", "family",
    "parent_checkpoint", "iteration", "iterations", "headline",
)  # fmt: skip
"""Fields of a summary that are fields of the run."""
MOMENTS = ("stop_requested_at", "end_requested_at", "created_at", "started_at", "ended_at")
OF_ATTEMPT = ("number", "state", "ended_as", "reason", "resumed_from", "shared_by")


def run_summary(run: Run) -> dict[str, Any]:
    """Return the fields of documents.RunSummary for the API, live deltas and pages; JSON types only."""
    attempts = attempts_of(run)
    return {
        **{name: getattr(run, name) for name in PLAIN},
        **_moments(run, MOMENTS),
        "project": run.project.slug,
        "owner": run.owner.username,
        "return_label": return_label(run.config),
        "parent": run.parent_id,
        "progress": min(run.iteration / run.iterations, 1.0) if run.iterations else 0.0,
        "eta_seconds": eta_seconds(run, attempts[-1] if attempts else None),
        "findings": run.finding_counts,
        "media": run.media_count,
        "cursor": run.event_count,
        "attempts": [
            {name: getattr(attempt, name) for name in OF_ATTEMPT} | _moments(attempt, MOMENTS[2:])
            for attempt in attempts
        ],
        "links": _links(run),
    }


def _moments(row: Run | Attempt, names: Iterable[str]) -> dict[str, str | None]:
    return {name: (moment := getattr(row, name)) and moment.isoformat() for name in names}


DEMONSTRATION = "demonstration"
"""Tag of the run that the first start launches."""
SYSTEM_TAGS = frozenset({DEMONSTRATION})
"""Tags that Troupe itself sets."""
HIDDEN_FROM_VISITORS = ("project", "owner", "family", "parent", "parent_checkpoint", "links")


def summary_shown(user: Person, run: Run) -> dict[str, Any]:
    """Return `run_summary` as visible to this user: visitors get nothing about users and other runs."""
    summary = run_summary(run)
    return summary_for_visitors(summary) if isinstance(user, Visitor) else summary


def summary_for_visitors(summary: dict[str, Any]) -> dict[str, Any]:
    """Remove fields that do not belong to the run, or refer to pages closed to visitors."""
    return {name: value for name, value in summary.items() if name not in HIDDEN_FROM_VISITORS} | {
        "findings": {}
    }


def _links(run: Run) -> dict[str, str]:
    """Return URLs without the host."""
    return {name: url.replace(_PLACEHOLDER, run.pk) for name, url in _urls().items()}


_PLACEHOLDER = "RUN-ID"
"""Stands for a run's id in `_urls`."""


@cache
def _urls() -> dict[str, str]:
    """Return the URLs of a run with the id _PLACEHOLDER."""
    names = {"page": "runs:detail", "self": "api:run"}
    for name in ("series", "episodes", "checkpoints", "logs", "stop", "pause", "resume", "events"):
        names[name] = f"api:run-{name}"
    return {name: reverse(view, args=[_PLACEHOLDER]) for name, view in names.items()}


def tags_of(user: Person) -> list[str]:
    """Return the tags of the user's latest runs, most used first."""
    latest = runs_visible(user).order_by("-created_at").values_list("tags", flat=True)[:500]
    counted = Counter(tag for tags in latest for tag in tags)
    return sorted(counted, key=lambda tag: (-counted[tag], tag))[:50]
