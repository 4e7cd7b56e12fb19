"""The data from which the browser draws panels."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from django.urls import reverse

from webapp.metrics.expressions import is_plain
from webapp.metrics.importance import by_importance, without_split
from webapp.metrics.models import Series
from webapp.panels.definitions import DEFAULT, MOST_METRICS, MOST_PANELS, PanelDefinition

MOST_READ = 60
"""Maximum number of runs whose metrics are offered."""
AXES = {
    "step": "step",
    "time": "time",
    "tokens": "tokens",
    "episodes": "episodes",
    "env_steps": "environment steps",
}
MOST_KEYS = 5000
"""Maximum number of metrics that a board offers."""


def board_data(
    run_ids: Sequence[str],
    shown: Sequence[str],
    default: Sequence[PanelDefinition] = DEFAULT,
    keys: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return the data of a board of panels. run_ids: runs whose metrics are offered; shown: those drawn if the address names none.

    keys: the metrics of these runs, if the page has read them. At most MOST_KEYS are offered. Runs that have no metric of `default`
    have panels of the most important names of those shown.
    """
    if keys is None:
        series = Series.objects.filter(run__in=run_ids[:MOST_READ])
        keys = list(series.order_by("key").values_list("key", flat=True).distinct()[:MOST_KEYS])
    keys = keys[:MOST_KEYS]
    standard = [panel for panel in default if _has(panel, keys)]
    if default and not standard:
        drawn = Series.objects.filter(run__in=shown).order_by("key").values_list("key", flat=True).distinct()
        standard = panels_named(drawn[:MOST_KEYS] if shown else keys)
    return {
        "shown": list(shown),
        "keys": keys,
        "default": [panel.model_dump(exclude_defaults=True) for panel in standard],
        "source": reverse("api:compare-curves"),
        "csv": reverse("compare:csv"),
        "compare": reverse("compare:page"),
        "check": reverse("api:expression-check"),
        "mostPanels": MOST_PANELS,
        "mostMetrics": MOST_METRICS,
    }


def panels_named(keys: Iterable[str]) -> list[PanelDefinition]:
    """Return panels of the most important metrics of custom programs; the splits of one metric (loss, eval/loss) share a panel."""
    groups: dict[str, list[str]] = {}
    for key in by_importance(keys):
        if is_plain(key):
            groups.setdefault(without_split(key), []).append(key)
    return [
        PanelDefinition(metrics=group[:MOST_METRICS], title=name if len(group) > 1 else "")
        for name, group in list(groups.items())[: len(DEFAULT)]
    ]


def _has(panel: PanelDefinition, keys: Sequence[str]) -> bool:
    return any(key in panel.metrics or (panel.pattern and re.search(panel.pattern, key)) for key in keys)
