"""The figures of a run's overview: tiles, the comparison of a fork with its parent, the base models and their success before training."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from django.db.models import Avg, Count, IntegerField
from django.db.models.functions import Cast

from training_core.config.files import parse_config
from training_core.errors import ConfigError
from webapp.accounts.permissions import Person
from webapp.agents.pages import TileFigure, TileSpec
from webapp.agents.registry import agent_pages
from webapp.agents.rewards import shaped_label
from webapp.common.formats import number
from webapp.common.tones import policy_tones
from webapp.metrics.names import by_importance
from webapp.metrics.points import Points, superseded
from webapp.metrics.selectors import points_read
from webapp.run_pages.charts import MOST_TILES, expanded, named_tiles
from webapp.runs.models import Run
from webapp.runs.selectors import parent_shown
from webapp.transcripts.models import Episode

MOST_ANCESTORS = 5
"""Number of ancestors whose curves are drawn."""


@dataclass(frozen=True)
class Lead:
    """An ancestor whose curves lead in to those of a fork, up to the iteration of the fork."""

    run: Run
    until: int
    relation: str
    """"parent" or "ancestor"."""

    @property
    def label(self) -> str:
        """Return the label of its curves."""
        return f"{self.relation}: {self.run.name} until iteration {self.until}"

    def json(self) -> dict[str, Any]:
        """Return the data from which the browser loads and draws its curves."""
        return {"id": self.run.pk, "until": self.until, "label": self.label}


@dataclass(frozen=True)
class Versus:
    """The parent's value of a metric at the step of the fork's latest value."""

    value: float
    change: float
    step: int
    ended: bool
    """Whether it is the parent's last value, because the parent has none at a later step."""

    @property
    def reference(self) -> str:
        """Return what the fork is compared with."""
        return f"parent's last, step {self.step:,}" if self.ended else f"parent at step {self.step:,}"


def leads_of(user: Person, run: Run) -> list[Lead]:
    """Return the readable ancestors, the parent first; the chain ends at an ancestor that the user may not read."""
    leads: list[Lead] = []
    child, until = run, run.parent_iteration
    while len(leads) < MOST_ANCESTORS and (parent := parent_shown(user, child)):
        until = min(until, child.parent_iteration)
        leads.append(Lead(parent, until, "ancestor" if leads else "parent"))
        child = parent
    return leads


def versus_parent(
    parent: Run, series: Mapping[str, Mapping[str, Any]], keys: Sequence[str]
) -> dict[str, Versus]:
    """Return the comparisons of a fork's latest finite values with its parent's; without an entry if either has none."""
    matches = {}
    for key in keys:
        latest = _latest(series.get(key, {}))
        points = _current(points_read(parent, key)) if latest else None
        if latest and points is not None and (match := _versus(points, *latest)):
            matches[key] = match
    return matches


def _latest(columns: Mapping[str, Any]) -> tuple[int, float] | None:
    """Return step and value of the last point that is finite."""
    pairs = zip(columns.get("steps", []), columns.get("values", []), strict=True)
    return next((pair for pair in reversed(list(pairs)) if not isinstance(pair[1], str)), None)


def _versus(points: Points, step: int, value: float) -> Versus | None:
    before = np.flatnonzero(points.steps <= step)
    if not len(before):
        return None
    at = before[-1]
    theirs, their_step = float(points.values[at]), int(points.steps[at])
    return Versus(theirs, value - theirs, their_step, int(points.steps[-1]) < step)


def _current(points: Points) -> Points:
    """Return the finite points that no later attempt has replaced."""
    return points.take(np.isfinite(points.values) & ~superseded(points.steps, points.attempts))


Columns = Mapping[str, Any]


@dataclass(frozen=True)
class BaseModel:
    """The initial model of one policy."""

    policy: str
    tone: int
    name: str
    said: str
    """A description in one sentence."""
    facts: list[tuple[str, str]]


def base_models(config: Mapping[str, Any], facts: Mapping[str, Any]) -> list[BaseModel]:
    """Return one per policy, in the order of the config; based on the config until the run has reported facts.

    Small networks have none.
    """
    reports = _object(facts.get("base_models"))
    tones = policy_tones(config)
    return [
        _base_model(policy, tones.get(policy, 0), settings, _object(reports.get(policy)))
        for policy, settings in config["policies"].items()
        if policy in tones and settings.get("model")  # a custom program names none
    ]


def _base_model(policy: str, tone: int, settings: Mapping[str, Any], report: Mapping[str, Any]) -> BaseModel:
    rows = [
        ("architecture", report.get("architecture")),
        ("parameters", _count(report.get("parameters"))),
        ("vocabulary", _count(report.get("vocabulary"), " words")),
        ("demonstrations", _count(report.get("demonstrations"))),
        ("noise", _share(report.get("demonstration_noise"))),
        ("final loss", _nats(report.get("loss"))),
    ]
    return BaseModel(
        policy,
        tone,
        settings["model"],
        _said(settings["model"], report),
        [(name, str(value)) for name, value in rows if value],
    )


def _said(model: str, report: Mapping[str, Any]) -> str:
    if model != "tiny":
        return f"The published model {model}."
    if not report:
        return "A small model that Troupe warm-starts for this environment before training."
    noise = _share(report.get("demonstration_noise"))
    wrong = f" of which {noise} were noise" if noise else ""
    return (
        f"A small model with {_count(report.get('parameters')) or 'few'} parameters, created by Troupe: it was trained to imitate "
        f"{_count(report.get('demonstrations')) or 'some'} demonstrations{wrong}, without rewards."
    )


def _object(value: Any) -> Mapping[str, Any]:
    """Return the value if it is an object: custom programs may report anything."""
    return value if isinstance(value, dict) else {}


def _nats(value: Any) -> str | None:
    return f"{number(value)} nats per token" if isinstance(value, int | float) and value else None


def _count(value: Any, unit: str = "") -> str | None:
    return f"{value:,}{unit}" if isinstance(value, int) else None


def _share(value: Any) -> str | None:
    return f"{100 * value:.0f}%" if isinstance(value, int | float) else None


def before_training(series: Mapping[str, Columns]) -> dict[str, float | str | None]:
    """Return greedy and sampled success at the first evaluation, if it preceded all updates (step 0)."""
    return {
        name: _first(series.get(key))
        for name, key in (("greedy", "eval/success"), ("sampled", "eval_sampled/success"))
    }


def _first(columns: Columns | None) -> float | str | None:
    return columns["values"][0] if columns and columns["steps"] and columns["steps"][0] == 0 else None


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


def tile_specs(run: Run, keys: Collection[str], chosen: Sequence[str] = ()) -> list[TileSpec]:
    """Return the tiles of a run that has reported the metrics `keys`, in this order: those that it has chosen, or else those of
    its agents, and for a run without a trainer of Troupe the most important names.
    """
    if shown := [key for key in chosen if key in keys]:
        return named_tiles(shown)
    reported = set(keys)
    known = [
        spec
        for spec in agent_pages(run.config).tiles
        if any(key in reported for figure in spec.figures for key in _expanded(figure.metric, run.config))
    ]
    if known and not run.is_custom:
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
    return dict(islice(expanded(metric, config).items(), 3))


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
