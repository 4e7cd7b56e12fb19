"""Queries of sweeps: the list, and the table of one sweep's runs by varied field."""

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, Q, QuerySet
from django.http import Http404
from django.urls import reverse

from training_core.config.sweeps import SEED, expand_path
from webapp.accounts.permissions import Person
from webapp.accounts.selectors import projects_visible
from webapp.agents.rewards import shaped_label
from webapp.experiments.fields import spell
from webapp.experiments.models import Sweep
from webapp.experiments.sweep_planning import column_styles, short_names
from webapp.metrics.headline import HEADLINE, SPARK, outcome_key
from webapp.runs.models import ACTIVE_STATES, ENDED_STATES
from webapp.runs.selectors import run_summary, runs_visible

LABELS = {
    "eval/success": "success, greedy",
    "eval_sampled/success": "success, sampled",
    "train/return": "return, training",
    "eval/return": "return, greedy",
}


def sweeps_visible(user: Person) -> QuerySet[Sweep]:
    """Return the sweeps of the user's projects, newest first, with counts of their runs: `total`, `over`, `active`."""
    return (
        Sweep.objects.filter(project__in=projects_visible(user))
        .select_related("project", "owner")
        .annotate(
            total=Count("runs"),
            over=Count("runs", filter=Q(runs__state__in=ENDED_STATES)),
            active=Count("runs", filter=Q(runs__state__in=ACTIVE_STATES)),
        )
        .order_by("-created_at", "-pk")
    )


def sweep_get(user: Person, pk: int) -> Sweep:
    """Return one sweep. Raises Http404, also for projects that are not visible to the user."""
    sweep = sweeps_visible(user).filter(pk=pk).first()
    if sweep is None:
        raise Http404(f"there is no sweep {pk} that is visible to you")
    return sweep


def sweep_summary(sweep: Sweep) -> dict[str, Any]:
    """Return JSON of one of `sweeps_visible`."""
    return {
        "id": sweep.pk,
        "name": sweep.name,
        "project": sweep.project.slug,
        "owner": sweep.owner.username if sweep.owner else "",
        "preset": sweep.preset,
        "overrides": sweep.overrides,
        "axes": sweep.axes,
        "method": sweep.method,
        "separate_processes": sweep.separate_processes,
        "created_at": sweep.created_at.isoformat(),
        "runs": getattr(sweep, "total", 0),
        "ended": getattr(sweep, "over", 0),
        "active": getattr(sweep, "active", 0),
        "links": {"page": reverse("experiments:sweep", args=[sweep.pk])},
    }


def sweep_rows(user: Person, sweep: Sweep, sort: str = "") -> list[dict[str, Any]]:
    """Return its runs as `run_summary` with `values` (axis -> value): in launch order, or sorted by an axis or a headline metric.

    sort: a name, with a minus sign for descending order; missing values come last.
    """
    rows = []
    for run in runs_visible(user).filter(sweep=sweep).order_by("created_at", "pk"):
        rows.append(run_summary(run) | {"values": {path: value_at(run.config, path) for path in sweep.axes}})
    return _sorted(rows, sort)


def value_at(config: Mapping[str, Any], path: str) -> Any:
    """Return a field of a config; of several (`*`), the first."""
    here: Any = config
    for name in next(iter(expand_path(path, config)), path).split("."):
        here = here.get(name) if isinstance(here, Mapping) else None
    return here


def _sorted(rows: list[dict[str, Any]], sort: str) -> list[dict[str, Any]]:
    name = sort.removeprefix("-")
    if not name:
        return rows

    def value(row: dict[str, Any]) -> Any:
        return row["values"].get(name) if name in row["values"] else row["headline"].get(name)

    sortable = [row for row in rows if isinstance(value(row), int | float)]
    words = [row for row in rows if row not in sortable and value(row) is not None]
    rest = [row for row in rows if row not in sortable and row not in words]
    down = sort.startswith("-")
    return [
        *sorted(sortable, key=value, reverse=down),
        *sorted(words, key=lambda row: spell(value(row)), reverse=down),
        *rest,
    ]


def sweep_points(rows: Sequence[Mapping[str, Any]], metric: str) -> list[dict[str, Any]]:
    """Return one row per group of runs that differ only by seed: values, runs, n, mean and sd of `metric`; best mean first."""
    grouped: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        values = {path: value for path, value in row["values"].items() if path != SEED}
        grouped.setdefault(repr(values), []).append(row)
    points = [_point(same, metric) for same in grouped.values()]
    return sorted(points, key=lambda point: (point["mean"] is None, -(point["mean"] or 0.0)))


def _point(rows: list[Mapping[str, Any]], metric: str) -> dict[str, Any]:
    outcomes = [row["headline"].get(metric) for row in rows]
    numbers = [value for value in outcomes if isinstance(value, int | float)]
    return {
        "values": {path: value for path, value in rows[0]["values"].items() if path != SEED},
        "runs": [row["id"] for row in rows],
        "n": len(numbers),
        "mean": fmean(numbers) if numbers else None,
        "sd": stdev(numbers) if len(numbers) > 1 else None,
    }


def sweep_document(user: Person, sweep: Sweep, sort: str = "", metric: str = "") -> dict[str, Any]:
    """Return one complete sweep as JSON; its points by `metric`, or by the default metric of its runs."""
    rows = sweep_rows(user, sweep, sort)
    metric = metric or outcome_key(row["headline"] for row in rows)
    return sweep_summary(sweep) | {"metric": metric, "results": rows, "points": sweep_points(rows, metric)}


def _curves(
    sweep: Sweep, document: Mapping[str, Any], configs: Sequence[Mapping[str, Any]]
) -> list[dict[str, str]]:
    """Return the charts of a sweep: of the metric by which its points are ranked, and of the return in training, the best points first.

    A point is a group of the comparison: the runs with equal values, or with an equal config except for the seed.
    """
    runs = [run for point in document["points"] for run in point["runs"]]
    fields = [path for path in sweep.axes if path != SEED]
    by = fields[0] if len(fields) == 1 and "*" not in fields[0] else "family"
    reported = {key for row in document["results"] for key in row["headline"]}
    return [
        {
            "label": shaped_label(LABELS.get(key, key), configs),
            "query": urlencode({"runs": ",".join(runs), "key": key, "by": by}, safe=",/"),
        }
        for key in dict.fromkeys((document["metric"], SPARK))
        if key in reported
    ]


def sweep_context(user: Person, sweep: Sweep, sort: str, metric: str) -> dict[str, Any]:
    """Return the context of the page of a sweep."""
    document = sweep_document(user, sweep, sort, metric)
    metric = document["metric"]
    names = short_names(list(sweep.axes))
    configs = list(
        sweep.runs.values_list("config", flat=True)[:1]
    )  # all have the same environment, unless it is an axis
    means = [point["mean"] for point in document["points"] if point["mean"] is not None]
    if not sort and not document["active"]:
        document["results"] = _sorted(document["results"], f"-{metric}")
    return document | {
        "place": "sweeps",
        "project_slug": "",
        "sweep": sweep,
        "names": names,
        "styles": column_styles(sweep.axes),
        "seeded": len(sweep.axes.get(SEED, [])) > 1,
        "fields": [path for path in sweep.axes if path != SEED],
        "metrics": [(key, shaped_label(LABELS.get(key, key), configs)) for key in HEADLINE],
        "metric_sort": f"-{metric}",
        "curves": _curves(sweep, document, configs),
        "metric_label": shaped_label(LABELS.get(metric, metric), configs),
        "return_heading": shaped_label("return", configs),
        "best": max(means) if means else None,
        "sort": sort,
        "sharing": sum(
            row["attempts"][-1]["shared_by"] > 1 for row in document["results"] if row["attempts"]
        ),
        "done": sum(row["state"] in ENDED_STATES for row in document["results"]),
    }
