"""Queries of runs, limited to the user's own projects."""

from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any

from django.db.models import F, Prefetch, Q, QuerySet
from django.http import Http404
from django.urls import reverse
from django.utils import timezone

from webapp.accounts.models import Project, User
from webapp.accounts.permissions import Person, Visitor
from webapp.accounts.selectors import projects_visible
from webapp.agents.rewards import return_label
from webapp.common.compiled import CompiledQuery
from webapp.runs.models import Attempt, Run, RunState


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


def run_summary(run: Run) -> dict[str, Any]:
    """Return a run's summary for the API, live deltas and pages; JSON types only."""
    attempts = attempts_of(run)
    return {
        "id": run.pk,
        "name": run.name,
        "state": run.state,
        "reason": run.reason,
        "remedy": run.remedy,
        "stop_requested": run.stop_requested,
        "stop_requested_at": run.stop_requested_at and run.stop_requested_at.isoformat(),
        "end_requested_at": run.end_requested_at and run.end_requested_at.isoformat(),
        "project": run.project.slug,
        "owner": run.owner.username,
        "preset": run.preset,
        "source": run.source,
        "tags": run.tags,
        "priority": run.priority,
        "archived": run.archived,
        "family": run.family,
        "return_label": return_label(run.config),
        "parent": run.parent_id,
        "parent_checkpoint": run.parent_checkpoint,
        "iteration": run.iteration,
        "iterations": run.iterations,
        "progress": min(run.iteration / run.iterations, 1.0) if run.iterations else 0.0,
        "eta_seconds": eta_seconds(run, attempts[-1] if attempts else None),
        "headline": run.headline,
        "findings": run.finding_counts,
        "media": run.media_count,
        "cursor": run.event_count,
        "created_at": run.created_at.isoformat(),
        "started_at": run.started_at and run.started_at.isoformat(),
        "ended_at": run.ended_at and run.ended_at.isoformat(),
        "attempts": [_attempt(attempt) for attempt in attempts],
        "links": _links(run),
    }


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


def eta_seconds(run: Run, attempt: Attempt | None) -> float | None:
    """Return the remaining seconds at the pace of the current attempt; None before its first iteration or after its end."""
    if (
        run.state not in (RunState.RUNNING, RunState.STOPPING)
        or attempt is None
        or attempt.started_at is None
        or not run.iterations
    ):
        return None
    done = run.iteration - first_iteration(run, attempt)
    if done < 1:
        return None
    spent = (timezone.now() - attempt.started_at).total_seconds()
    return round(spent / done * (run.iterations - run.iteration), 1)


def first_iteration(run: Run, attempt: Attempt) -> int:
    """Return the iteration from which the attempt starts."""
    return max(attempt.resumed_iteration, run.parent_iteration)


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "state": attempt.state,
        "ended_as": attempt.ended_as,
        "reason": attempt.reason,
        "resumed_from": attempt.resumed_from,
        "shared_by": attempt.shared_by,
        "created_at": attempt.created_at.isoformat(),
        "started_at": attempt.started_at and attempt.started_at.isoformat(),
        "ended_at": attempt.ended_at and attempt.ended_at.isoformat(),
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
