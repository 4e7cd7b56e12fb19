"""The share of stored episodes that match a query, over training."""

from collections.abc import Iterator, Mapping
from math import ceil, sqrt
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, Max, Min
from django.urls import reverse

from webapp.common.query_language import FilterError
from webapp.runs.models import Run
from webapp.transcripts.forms import KINDS
from webapp.transcripts.models import Episode
from webapp.transcripts.query import PARAMETER, query_condition

MOST_POINTS = 60
"""Maximum number of points of a curve; more iterations are counted in bins of equal width."""
Z = 1.959963984540054
"""Normal quantile of a 95 % interval."""
HEADER = ("kind", "first_iteration", "last_iteration", "matching", "of", "share", "low", "high")


def curve_read(run: Run, query: str, base: str = "") -> dict[str, Any]:
    """Return {"query", "base", "width", "matching", "of", "kinds": [{"kind", "label", "points": [...]}]}.

    A point is {"first", "last", "matching", "of", "share", "low", "high", "address"}: of the stored episodes of iterations
    first … last that match `base`, the share that also matches `query`, its Wilson interval (95%), and the page of the
    matching ones. `width` is the number of iterations per point. Raises FilterError for an invalid query or base.
    """
    if not query.strip():
        raise FilterError("give a query, e.g. planner.reward > 0", 1, PARAMETER)
    condition = query_condition(run, query)
    try:
        among = query_condition(run, base)
    except FilterError as error:
        raise FilterError(error.reason, error.column, "base") from error
    episodes = Episode.objects.filter(run=run).filter(among).order_by()
    ends = episodes.aggregate(first=Min("iteration"), last=Max("iteration"))
    width = 1 if ends["first"] is None else ceil((ends["last"] - ends["first"] + 1) / MOST_POINTS)
    rows = episodes.values_list("kind", "iteration").annotate(
        of=Count("pk"), matching=Count("pk", filter=condition)
    )
    bins: dict[str, dict[int, list[int]]] = {}
    for kind, iteration, of, matching in rows:
        counts = bins.setdefault(kind, {}).setdefault(iteration // width * width, [0, 0])
        counts[0] += matching
        counts[1] += of
    both = f"({base}) and ({query})" if base.strip() else query
    kinds = [
        {"kind": kind, "label": label, "points": list(_points(run, both, kind, bins[kind], width))}
        for kind, label in KINDS
        if kind in bins
    ]
    totals = [sum(counts[index] for kind in bins.values() for counts in kind.values()) for index in (0, 1)]
    return {
        "query": query, "base": base, "width": width, "matching": totals[0], "of": totals[1], "kinds": kinds,
    }  # fmt: skip


def _points(
    run: Run, query: str, kind: str, bins: Mapping[int, list[int]], width: int
) -> Iterator[dict[str, Any]]:
    page = reverse("transcripts:list", args=[run.pk])
    for first, (matching, of) in sorted(bins.items()):
        low, high = wilson(matching, of)
        span = {"iteration_min": max(first, 0), "iteration_max": max(first + width - 1, 0)}
        yield {
            "first": first,
            "last": first + width - 1,
            "matching": matching,
            "of": of,
            "share": matching / of,
            "low": low,
            "high": high,
            "address": f"{page}?{urlencode({'query': query, 'kind': kind, **span})}",
        }


def wilson(matching: int, of: int) -> tuple[float, float]:
    """Return the 95 % score interval of a proportion (Wilson 1927)."""
    share, z2 = matching / of, Z * Z
    centre = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = Z / (1 + z2 / of) * sqrt(share * (1 - share) / of + z2 / (4 * of * of))
    return max(0.0, centre - half), min(1.0, centre + half)


def curve_rows(curve: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a CSV file, with its header."""
    yield HEADER
    for kind in curve["kinds"]:
        for point in kind["points"]:
            figures = (point[name] for name in ("first", "last", "matching", "of", "share", "low", "high"))
            yield (kind["kind"], *figures)
