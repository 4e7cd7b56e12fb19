"""The key figures at the top of a run's overview."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from training_core.config.files import parse_config
from training_core.errors import ConfigError
from webapp.agents.pages import TileFigure
from webapp.agents.registry import agent_pages
from webapp.agents.rewards import shaped_label
from webapp.common.tones import policy_tones, role_tones
from webapp.run_pages.ancestry import Versus, versus_parent
from webapp.runs.models import Run

Columns = Mapping[str, Any]


@dataclass(frozen=True)
class Figure:
    """The last value of one series, and its change."""

    key: str
    value: float | str | None
    under: str = ""
    """Caption below it: a unit, or a policy's name."""
    tone: int | None = None
    since: str = ""
    """Reference of the change; empty: the change is not shown."""
    change: float | None = None
    up_is_good: bool = False
    versus: Versus | None = None
    """The parent's value, for a figure of a fork that larger values improve."""


@dataclass(frozen=True)
class Tile:
    """A title with one or more figures."""

    label: str
    unit: str
    figures: list[Figure]

    @property
    def keys(self) -> list[str]:
        """Return the metrics that it shows."""
        return [figure.key for figure in self.figures]


def overview_tiles(
    config: Mapping[str, Any],
    series: Mapping[str, Columns],
    forked_at: int = 0,
    parent: Run | None = None,
) -> list[Tile]:
    """Return the last values, with the change since the base model or the start if larger is better.

    The values of a fork begin at the iteration of its checkpoint, `forked_at`, and are compared with those of its `parent`.
    """
    versus = versus_parent(parent, series, compared_keys(config)) if parent else {}
    names = {"{role}": role_tones(config), "{policy}": policy_tones(config)}
    side = _side(config)
    return [
        Tile(
            shaped_label(spec.label.format(side=side), [config]),
            spec.unit,
            [tile for figure in spec.figures for tile in _figures(series, figure, names, forked_at, versus)],
        )
        for spec in agent_pages(config).tiles
    ]


def _side(config: Mapping[str, Any]) -> str:
    """Return the role whose return is shown in a team with several sides; empty if the config cannot be read."""
    if len(config.get("team", {}).get("roles", {})) < 2:
        return ""
    try:
        role = parse_config(config).returned_role
    except ConfigError:
        return ""
    return f" of {role}" if role else ""


def tile_keys(config: Mapping[str, Any]) -> list[str]:
    """Return the metrics of the tiles."""
    return [figure.key for tile in overview_tiles(config, {}) for figure in tile.figures]


def compared_keys(config: Mapping[str, Any]) -> list[str]:
    """Return the metrics of the tiles that larger values improve: those of a fork are compared with its parent's."""
    return [figure.metric for tile in agent_pages(config).tiles for figure in tile.figures if figure.since]


def _figures(
    series: Mapping[str, Columns],
    spec: TileFigure,
    names: Mapping[str, Mapping[str, int]],
    forked_at: int,
    versus: Mapping[str, Versus],
) -> list[Figure]:
    """Return one figure, or one per role or policy; at most three."""
    for word, tones in names.items():
        if word in spec.metric:
            keys = {name: spec.metric.replace(word, name) for name in list(tones)[:3]}
            return [Figure(key, _last(series, key), name, tones[name]) for name, key in keys.items()]
    finite = [value for value in series.get(spec.metric, {}).get("values", []) if not isinstance(value, str)]
    change = finite[-1] - finite[0] if spec.since and len(finite) > 1 else None
    value = _last(series, spec.metric)
    since = f"iteration {forked_at}" if forked_at and spec.since else spec.since
    parents = versus.get(spec.metric)
    return [
        Figure(
            spec.metric,
            value,
            spec.under,
            since=since,
            change=change,
            up_is_good=bool(spec.since),
            versus=parents,
        )
    ]


def _last(series: Mapping[str, Columns], key: str) -> float | str | None:
    values = series.get(key, {}).get("values", [])
    return values[-1] if values else None
