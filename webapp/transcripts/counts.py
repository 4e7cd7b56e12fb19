"""Counts of stored episodes. They are samples: most training episodes are played without being stored."""

from collections.abc import Mapping
from typing import Any

from django.db.models import Count

from webapp.metrics.models import Series
from webapp.runs.models import Run
from webapp.transcripts.models import Episode
from webapp.transcripts.selectors import episodes_list

PLAYED = "progress/episodes"
"""Metric of the number of training episodes played."""


def counts_read(run: Run, filters: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return {"kept", "matching", "train", "played", "evaluation", "per_iteration"}.

    kept: stored episodes; matching: those that match the filters (None without filters); train and evaluation: stored ones by kind;
    played: training episodes played, None if not reported; per_iteration: training episodes stored for each iteration.
    """
    kinds = dict(Episode.objects.filter(run=run).order_by().values_list("kind").annotate(Count("pk")))
    stored = sum(kinds.values())
    narrowed = filters and set(filters) - {"noted"}
    return {
        "kept": stored,
        "matching": episodes_list(run, filters).count() if narrowed else None,
        "train": kinds.get("train", 0),
        "played": _played(run, kinds.get("train", 0)),
        "evaluation": stored - kinds.get("train", 0),
        "per_iteration": run.config.get("reporting", {}).get("episodes_per_iteration"),
    }


def _played(run: Run, stored: int) -> int | None:
    last = Series.objects.filter(run=run, key=PLAYED).values_list("last_value", flat=True).first()
    return None if last is None or last < stored else int(last)
