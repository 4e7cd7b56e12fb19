"""Counts of stored episodes. They are samples: most training episodes are played without being stored."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from webapp.runs.frame import frame_of
from webapp.runs.models import Run
from webapp.transcripts import listing
from webapp.transcripts.listing import Slice, floor_of, is_narrowed
from webapp.transcripts.models import Episode
from webapp.transcripts.selectors import episodes_list


def counts_read(
    run: Run, filters: Mapping[str, Any] | None = None, page: Slice | None = None
) -> dict[str, Any]:
    """Return {"kept", "matching", "more", "train", "played", "evaluation", "per_iteration"}.

    kept: stored episodes; matching: those that match the filters, at most COUNTED (None without filters); more: whether others match,
    or are not examined; train and evaluation: stored ones by kind; played: training episodes played, None if not reported;
    per_iteration: training episodes stored for each iteration. page: the page of the list with these filters.
    """
    kinds = run.episode_counts
    stored = sum(kinds.values())
    matching, more = _matching(run, filters, page) if filters and is_narrowed(filters) else (None, False)
    return {
        "kept": stored,
        "matching": matching,
        "more": more,
        "train": kinds.get("train", 0),
        "played": _played(run, kinds.get("train", 0)),
        "evaluation": stored - kinds.get("train", 0),
        "per_iteration": run.config.get("reporting", {}).get("episodes_per_iteration"),
    }


def _matching(run: Run, filters: Mapping[str, Any], page: Slice | None) -> tuple[int, bool]:
    """Return the number of matching episodes, at most COUNTED, and whether others match or are not examined.

    Without `hits` the newest EXAMINED episodes are examined, whichever page is shown.
    """
    if page and page.matching:
        return page.matching
    hits, most = page.hits if page else None, listing.COUNTED
    if hits is not None and not is_narrowed({name: 0 for name in filters if name != "q"}):
        return min(len(hits), most), len(hits) > most
    examined = Episode.objects.of_run(run).newest(listing.EXAMINED) if hits is None else None
    asked = {**filters, "hits": hits} if page and filters.get("q") else filters
    count = len(episodes_list(run, asked, examined).values_list("pk")[: most + 1])
    return min(count, most), count > most or (hits is None and floor_of(run) is not None)


def _played(run: Run, stored: int) -> int | None:
    last = float(frame_of(run)["played"] or "NaN")
    return int(last) if isfinite(last) and last >= stored else None
