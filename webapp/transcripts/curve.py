"""The share of stored episodes that match a query, over training."""

from math import ceil, sqrt
from urllib.parse import urlencode

from django.db.models import Count, Max, Min
from django.urls import reverse

from troupe_client.documents.transcripts import EpisodeCurve, ShareCurve, SharePoint
from webapp.common.query_language import FilterError
from webapp.runs.models import Run
from webapp.transcripts.models import Episode
from webapp.transcripts.query import KINDS, PARAMETER, query_condition

MOST_POINTS = 60
"""Maximum number of points of a curve; more iterations are counted in bins of equal width."""
Z = 1.959963984540054
"""Normal quantile of a 95 % interval."""


def curve_read(run: Run, query: str, base: str = "") -> EpisodeCurve:
    """Return the share of the stored episodes that match `query` among those that match `base`, by kind and iteration.

    Raises FilterError for an invalid query or base.
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
        ShareCurve(
            kind=kind, label=label,
            points=[_point(run, both, kind, first, width, *counts) for first, counts in sorted(bins[kind].items())],
        )
        for kind, label in KINDS.items()
        if kind in bins
    ]  # fmt: skip
    matching, of = (sum(counts[i] for kind in bins.values() for counts in kind.values()) for i in (0, 1))
    return EpisodeCurve(query=query, base=base, width=width, matching=matching, of=of, kinds=kinds)


def _point(run: Run, query: str, kind: str, first: int, width: int, matching: int, of: int) -> SharePoint:
    low, high = wilson(matching, of)
    last = first + width - 1
    asked = {"query": query, "kind": kind, "iteration_min": max(first, 0), "iteration_max": max(last, 0)}
    address = f"{reverse('transcripts:list', args=[run.pk])}?{urlencode(asked)}"
    return SharePoint(
        first=first, last=last, matching=matching, of=of, share=matching / of, low=low, high=high, address=address
    )  # fmt: skip


def wilson(matching: int, of: int) -> tuple[float, float]:
    """Return the 95 % score interval of a proportion (Wilson 1927)."""
    share, z2 = matching / of, Z * Z
    centre = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = Z / (1 + z2 / of) * sqrt(share * (1 - share) / of + z2 / (4 * of * of))
    return max(0.0, centre - half), min(1.0, centre + half)
