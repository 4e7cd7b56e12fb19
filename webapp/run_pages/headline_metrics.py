"""Headline metrics: those that the overview of a run shows as tiles and first charts, by its own choice or by their names."""

import re
from collections.abc import Iterable, Sequence

from django.utils.text import slugify

from webapp.agents.pages import TileFigure, TileSpec
from webapp.metrics.importance import SPLITS, by_importance, without_counters, without_split
from webapp.run_pages.charts import GREEDY, SAMPLED, ChartLine, Panel, Tone

MOST_TILES = 8
MOST_CHARTS = 9
_HELD_OUT = re.compile(rf"({'|'.join(SPLITS[2:])})[_/]")
_TONES: tuple[Tone, ...] = (GREEDY, SAMPLED, 1, 2, 3, 5, 6)


def named_tiles(keys: Iterable[str]) -> list[TileSpec]:
    """Return a tile for each metric, with its change since the start; whether more is better is not known."""
    return [TileSpec(key, "", (TileFigure(key, since="start", more_is_better=False),)) for key in keys]


def named_panels(keys: Sequence[str], also: Iterable[str] = ()) -> list[Panel]:
    """Return a chart for each metric of `without_counters`, the most important first, and for each of `also`; the splits of one
    metric (loss, eval/loss) share a chart.
    """
    groups: dict[str, list[str]] = {}
    for key in dict.fromkeys([*by_importance(keys), *without_counters(keys), *also]):
        groups.setdefault(without_split(key), []).append(key)
    return [_panel(name, members) for name, members in groups.items()]


def _panel(name: str, keys: list[str]) -> Panel:
    keys = sorted(keys, key=lambda key: bool(_HELD_OUT.match(key)))
    lines = [ChartLine(key, key, _TONES[index % len(_TONES)]) for index, key in enumerate(keys)]
    title = name if len(keys) > 1 else keys[0]
    return Panel(slugify(f"headline-{title.replace('/', '-')}"), title, "", lines)
