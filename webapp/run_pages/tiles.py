"""The key figures at the top of a run's overview."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Avg, Count, IntegerField
from django.db.models.functions import Cast

from training_core.config.files import parse_config
from training_core.errors import ConfigError
from webapp.agents.pages import TileFigure, TileSpec
from webapp.agents.registry import agent_pages
from webapp.agents.rewards import shaped_label
from webapp.common.tones import policy_tones, role_tones
from webapp.metrics.importance import by_importance
from webapp.run_pages.ancestry import Versus, versus_parent
from webapp.run_pages.charts import is_custom
from webapp.run_pages.headline_metrics import MOST_TILES, named_tiles
from webapp.runs.models import Run
from webapp.transcripts.models import Episode

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


def tile_specs(
    config: Mapping[str, Any], keys: Collection[str], chosen: Sequence[str] = ()
) -> list[TileSpec]:
    """Return the tiles of a run that has reported the metrics `keys`, in this order: those that it has chosen, or else those of
    its agents, and for a run without a trainer of Troupe the most important names.
    """
    if shown := [key for key in chosen if key in keys]:
        return named_tiles(shown)
    reported = set(keys)
    known = [
        spec
        for spec in agent_pages(config).tiles
        if any(key in reported for figure in spec.figures for key in _expanded(figure.metric, config))
    ]
    if known and not is_custom(config):
        return known
    covered = {figure.metric for spec in known for figure in spec.figures}
    named = [key for key in by_importance(keys) if key not in covered]
    return [*known, *named_tiles(named)][: max(MOST_TILES, len(known))]


def overview_tiles(
    config: Mapping[str, Any],
    specs: Iterable[TileSpec],
    series: Mapping[str, Columns],
    forked_at: int = 0,
    parent: Run | None = None,
) -> list[Tile]:
    """Return the last values, with the change since the base model or the start if larger is better. Figures without a value are
    omitted.

    The values of a fork begin at the iteration of its checkpoint, `forked_at`, and are compared with those of its `parent`.
    """
    versus = versus_parent(parent, series, compared_keys(config)) if parent else {}
    side = _side(config)
    tiles = [
        Tile(
            shaped_label(spec.label.format(side=side), [config]),
            spec.unit,
            [tile for figure in spec.figures for tile in _figures(series, figure, config, forked_at, versus)],
        )
        for spec in specs
    ]
    return [tile for tile in tiles if tile.figures]


def _side(config: Mapping[str, Any]) -> str:
    """Return the role whose return is shown in a team with several sides; empty if the config cannot be read."""
    if len(config.get("team", {}).get("roles", {})) < 2:
        return ""
    try:
        role = parse_config(config).returned_role
    except ConfigError:
        return ""
    return f" of {role}" if role else ""


def episode_tiles(run: Run) -> list[Tile]:
    """Return the number, success and mean return of the stored episodes, for a run that has reported nothing else."""
    facts = Episode.objects.of_run(run).aggregate(
        count=Count("pk"), success=Avg(Cast("success", IntegerField())), mean=Avg("episode_return")
    )
    if not facts["count"]:
        return []
    values = {agent_pages(run.config).episodes.capitalize(): facts["count"]}
    values |= {"Success": facts["success"], shaped_label("Return per episode", [run.config]): facts["mean"]}
    return [Tile(label, "", [Figure("", value)]) for label, value in values.items() if value is not None]


def tile_keys(specs: Iterable[TileSpec], config: Mapping[str, Any]) -> list[str]:
    """Return the metrics of the tiles."""
    return [key for spec in specs for figure in spec.figures for key in _expanded(figure.metric, config)]


def compared_keys(config: Mapping[str, Any]) -> list[str]:
    """Return the metrics of the tiles that larger values improve: those of a fork are compared with its parent's."""
    return [figure.metric for tile in agent_pages(config).tiles for figure in tile.figures if figure.since]


def _expanded(metric: str, config: Mapping[str, Any]) -> dict[str, tuple[str, int | None]]:
    """Return name and colour by key: of the metric, or of the first three roles or policies that it names."""
    for word, tones_of in (("{role}", role_tones), ("{policy}", policy_tones)):
        if word in metric:
            tones = tones_of(config)
            return {metric.replace(word, name): (name, tones[name]) for name in list(tones)[:3]}
    return {metric: ("", None)}


def _figures(
    series: Mapping[str, Columns],
    spec: TileFigure,
    config: Mapping[str, Any],
    forked_at: int,
    versus: Mapping[str, Versus],
) -> list[Figure]:
    """Return one figure, or one per role or policy; none without values."""
    since = f"iteration {forked_at}" if forked_at and spec.since else spec.since
    return [
        Figure(
            key,
            _last(series, key),
            name or spec.under,
            tone,
            since,
            _change(series[key]["values"]) if since else None,
            bool(since) and spec.more_is_better,
            versus.get(key),
        )
        for key, (name, tone) in _expanded(spec.metric, config).items()
        if series.get(key, {}).get("values")
    ]


def _change(values: Sequence[float | str]) -> float | None:
    """Return the difference of the last value from the first finite one; None if the last is not finite."""
    finite = [value for value in values if not isinstance(value, str)]
    return finite[-1] - finite[0] if len(finite) > 1 and not isinstance(values[-1], str) else None


def _last(series: Mapping[str, Columns], key: str) -> float | str | None:
    values = series.get(key, {}).get("values", [])
    return values[-1] if values else None
