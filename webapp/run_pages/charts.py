"""Charts of a run: all metrics by section, and the charts of its overview.

The overview has the charts of the algorithm's layout (LAYOUTS; a new algorithm needs no entry, it gets DEFAULT), and those of the metrics
that the run has chosen or, for a run without a trainer of Troupe, of the most important names. Charts of unreported metrics are omitted,
so that a layout may contain metrics of optional settings (a KL, a corrected ratio).

Of a run with many metrics, the curves page shows a part: the database searches them, and the browser loads the charts in view.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from django.utils.text import slugify

from webapp.agents.pages import TileFigure, TileSpec
from webapp.agents.registry import agent_pages
from webapp.agents.rewards import shaped_label
from webapp.common.tones import TONES, policy_tones, role_tones
from webapp.metrics.names import (
    SPLITS,
    BadPattern,
    NameQuery,
    by_importance,
    names_like,
    names_list,
    names_page,
    without_counters,
    without_split,
)
from webapp.metrics.panels import AXES as PANEL_AXES
from webapp.metrics.panels import PROGRESS
from webapp.metrics.selectors import key_names
from webapp.runs.models import Run

Tone = int | str
GREEDY: Tone = "accent"
SAMPLED: Tone = 4
NEUTRAL: Tone = 0
DEVICE = re.compile(r"^gpu\d+_")
UNITS = {
    "success": "share of episodes",
    "return": "reward per episode",
    "reward": "reward per episode",
    "candidate_reward": "mean over candidates",
    "length": "turns",
    "lag": "iterations",
    "entropy": "nats per token",
    "kl": "nats per token, to the base model",
    "clip_fraction": "share of tokens",
    "grad_norm": "L2",
    "weight_change": "share of the weights' norm",
    "compilations": "kernels",
    "memory_peak_gib": "GiB",
    "memory_planned_gib": "GiB",
    "micro_batch_tokens": "tokens",
    "lr": "learning rate",
    "loss": "per token",
    "ratio_max": "largest probability ratio",
    "mismatch_mean": "nats, |learner - engine|",
    "mismatch_max": "nats, largest |learner - engine|",
    "mismatch_kl": "nats per token, engine to learner",
    "zero_variance": "share of groups",
    "too_easy": "share of groups",
    "too_hard": "share of groups",
    "filtered": "share of groups",
    "tokens_per_second": "tokens / s",
    "episodes_per_second": "episodes / s",
    "staleness": "versions",
    "truncated": "share of responses",
    "failed": "episodes",
    "agent_errors": "episodes",
    "overlong": "episodes",
    "lost_groups": "groups",
    "dropped": "answers",
    "timeouts": "answers",
    "unscored": "answers",
    "requests": "requests",
    "cached": "verdicts",
    "failures": "verdicts",
    "prompt_tokens": "tokens",
    "completion_tokens": "tokens",
    "agreement": "share of pairs",
    "current_size": "records",
    "total_written": "records",
    "total_read": "records",
    "waited": "seconds",
    "open_groups": "groups",
    "ready_groups": "groups",
    "groups_finished": "groups",
    "groups_timed_out": "groups",
    "groups_dropped": "groups",
    "update_flops_per_second": "model FLOPs / s",
    "rollout_flops_per_second": "model FLOPs / s",
    "update_mfu": "share of the device's peak",
    "rollout_mfu": "share of the device's peak",
    "cpu_percent": "% of all cores",
    "memory_percent": "%",
    "memory_gib": "GiB",
    "network_received_mib_s": "MiB / s",
    "network_sent_mib_s": "MiB / s",
    "gpu_memory_gib": "GiB",
    "gpu_percent": "%",
}
SECTIONS = {
    "eval": "Evaluation",
    "eval_sampled": "Evaluation, sampled",
    "train": "Training",
    "policy": "Policies",
    "groups": "Groups",
    "rollout": "Rollout",
    "rewards": "Reward functions",
    "judge": "Judges",
    "buffer": "Rollout buffer",
    "time": "Time",
    "compute": "Compute",
    "progress": "Progress",
    "system": "System",
}
SHARES = {
    "success", "zero_variance", "too_easy", "too_hard", "filtered", "clip_fraction", "truncated", "agreement"
}  # fmt: skip


AXES = {name: (label, PROGRESS.get(name, "")) for name, label in (PANEL_AXES | {"time": "wall time"}).items()}
"""Options of the x axis: label, and the metric with its value at each step."""
AXIS_KEYS = tuple(PROGRESS.values())


@dataclass(frozen=True)
class ChartLine:
    """One series of a chart."""

    key: str
    label: str
    tone: Tone = NEUTRAL


@dataclass
class Panel:
    """One chart."""

    id: str
    title: str
    unit: str
    lines: list[ChartLine] = field(default_factory=list)
    range: tuple[float, float] | None = None

    @property
    def keys(self) -> list[str]:
        """Return the metrics that it shows."""
        return [line.key for line in self.lines]

    def json(self) -> dict[str, Any]:
        """Return the data from which the browser draws the chart."""
        return asdict(self)


@dataclass
class ChartSection:
    """Charts under one heading."""

    name: str
    panels: list[Panel]


def unit_of(metric: str, config: Mapping[str, Any]) -> str:
    """Return the unit of a metric by the last part of its name, without the number of a device; empty if it has none."""
    units = UNITS | agent_pages(config).units
    return units.get(metric) or units.get(DEVICE.sub("gpu_", metric), "")


def axes_of(keys: Iterable[str], config: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return the AXES available for a run with these metrics; without tokens for agents that have none."""
    there = {"", *keys} - unused_keys(config)
    return {name: axis for name, axis in AXES.items() if axis[1] in there}


def unused_keys(config: Mapping[str, Any]) -> set[str]:
    """Return metrics that are always 0 for the agents of a run and are not shown."""
    return set() if agent_pages(config).tokens else {"progress/tokens"}


def all_sections(keys: Iterable[str], run: Run) -> list[ChartSection]:
    """Return every metric of a run; the metrics of all roles, policies or hosts share a chart."""
    config = run.config
    tones: dict[str, Tone] = {**policy_tones(config), **role_tones(config)}
    panels: dict[str, dict[str, Panel]] = {}
    for key in (key for key in keys if key not in unused_keys(config)):
        section, chart, label = _place(key)
        panel = panels.setdefault(section, {}).setdefault(chart, _panel(section, chart, run))
        panel.lines.append(ChartLine(key, label, tones.get(label, (len(panel.lines) + 1) % (TONES + 1))))
    order = [*SECTIONS, *sorted(set(panels) - set(SECTIONS))]
    sections = [_section(name, list(panels[name].values()), list(tones)) for name in order if name in panels]
    for panel in (panel for section in sections for panel in section.panels):
        panel.title = shaped_label(panel.title, [config])
    _name_apart([panel for section in sections for panel in section.panels])
    return sections


def _name_apart(panels: list[Panel]) -> None:
    """Make ids unique, because they are part of URLs: names that differ only in punctuation get a number."""
    taken: dict[str, int] = {}
    for panel in panels:
        taken[panel.id] = taken.get(panel.id, 0) + 1
        if taken[panel.id] > 1:
            panel.id = f"{panel.id}--{taken[panel.id]}"


def _section(name: str, panels: list[Panel], people: list[str]) -> ChartSection:
    """Return a section with its most important panels first; lines in the order of roles and policies."""
    for panel in panels:
        panel.lines.sort(key=lambda line: _rank(line.label, people))
        if len(panel.lines) == 1 and panel.lines[0].label not in people:
            panel.lines = [ChartLine(panel.lines[0].key, panel.lines[0].label.replace("_", " "), GREEDY)]
    panels.sort(key=lambda panel: _rank(panel.title.replace(" ", "_"), list(UNITS)))
    return ChartSection(SECTIONS.get(name, name), panels)


def _rank(name: str, order: list[str]) -> int:
    return order.index(name) if name in order else len(order)


def _place(key: str) -> tuple[str, str, str]:
    """Return section, chart and line: policy/planner/entropy is the line `planner` of the chart `entropy` of Policies."""
    section, *rest = key.split("/")
    if not rest:
        return "other", key, key
    if section == "system" and len(rest) > 1:
        return section, "/".join(rest[1:]), rest[0]
    if section in ("policy", "compute", "groups", "train", "eval", "eval_sampled") and len(rest) > 1:
        return section, "/".join(rest[1:]), rest[0]
    return section, "/".join(rest), rest[-1]


def _panel(section: str, chart: str, run: Run) -> Panel:
    leaf, identity = chart.rsplit("/", 1)[-1], slugify(f"{section}-{chart}")
    # The metrics of a custom program need not have the unit and the range of the metric of Troupe with the same name.
    if run.is_custom and section != "system":
        return Panel(identity, chart, "")
    unit = "seconds" if section == "time" else unit_of(leaf, run.config)
    return Panel(identity, chart.replace("_", " "), unit, [], (0.0, 1.0) if leaf in SHARES else None)


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
    return [_named_panel(name, members) for name, members in groups.items()]


def _named_panel(name: str, keys: list[str]) -> Panel:
    keys = sorted(keys, key=lambda key: bool(_HELD_OUT.match(key)))
    lines = [ChartLine(key, key, _TONES[index % len(_TONES)]) for index, key in enumerate(keys)]
    title = name if len(keys) > 1 else keys[0]
    return Panel(slugify(f"headline-{title.replace('/', '-')}"), title, "", lines)


FIRST = 6
"""Number of charts; a larger number is rounded down to whole rows."""
ROW = 3


@dataclass(frozen=True)
class Chart:
    """One chart of a layout. `{role}` and `{policy}` in a metric's name are expanded to all roles or policies of the run."""

    title: str
    lines: tuple[tuple[str, str, Tone], ...]
    """(metric, label, tone); an expanded metric has the label and tone of its role or policy."""
    unit: str = ""
    """The unit, if its first metric has none."""


def _each(pattern: str) -> tuple[tuple[str, str, Tone], ...]:
    return ((pattern, "", NEUTRAL),)


CHARTS: dict[str, Chart] = {
    "success": Chart(
        "Success", (("eval/success", "greedy", GREEDY), ("eval_sampled/success", "sampled", SAMPLED))
    ),
    "return": Chart("Return", (("train/return", "training", NEUTRAL), ("eval/return", "greedy", GREEDY))),
    "reward": Chart("Reward by role", _each("train/{role}/reward")),
    "entropy": Chart("Entropy by policy", _each("policy/{policy}/entropy")),
    "kl": Chart("KL to base by policy", _each("policy/{policy}/kl"), "nats per token"),
    "groups": Chart("Groups without signal", _each("groups/{role}/zero_variance"), "share"),
    "hard": Chart("Groups too hard", _each("groups/{role}/too_hard")),
    "clipped": Chart("Clipped by policy", _each("policy/{policy}/clip_fraction")),
    "ratio": Chart("Largest ratio by policy", _each("policy/{policy}/ratio_max")),
    "gradient": Chart("Gradient norm by policy", _each("policy/{policy}/grad_norm")),
    "mismatch": Chart("Engine–learner logprob mismatch", _each("policy/{policy}/mismatch_mean")),
    "left_out": Chart("Tokens excluded", _each("policy/{policy}/correction_left_out"), "share of tokens"),
    "truncated": Chart("Truncated responses", (("rollout/truncated", "training", NEUTRAL),)),
    "length": Chart("Episode length", (("eval/length", "greedy", GREEDY),)),
    "staleness": Chart("Staleness", (("rollout/staleness", "training", NEUTRAL),)),
    "value": Chart("Value loss by policy", _each("policy/{policy}/value_loss"), "squared return"),
    "evaluated": Chart(
        "Return of evaluations",
        (("eval/return", "greedy", GREEDY), ("eval_sampled/return", "sampled", SAMPLED)),
    ),
    "evaluated_role": Chart("Return by role, greedy", _each("eval/{role}/reward")),
    "change": Chart("KL of the update", _each("policy/{policy}/kl")),
    "spread": Chart("Spread of ratios by policy", _each("policy/{policy}/ratio_std")),
    "speed": Chart("Environment steps", (("rollout/env_steps_per_second", "rollout", NEUTRAL),)),
    "explained": Chart(
        "Explained variance", _each("policy/{policy}/explained_variance"), "share of variance"
    ),
}
"""All charts available to layouts, by the id of their panel."""

_GROUPED = ("success", "return", "reward", "entropy", "kl", "groups")
_CRITIC = ("success", "return", "reward", "entropy", "explained", "value", "kl", "clipped", "gradient")
_NETWORKS = (
    "evaluated", "return", "explained", "entropy", "change", "value", "clipped", "spread", "gradient", "evaluated_role", "success", "speed",
)  # fmt: skip
DEFAULT = (*_GROUPED, "clipped", "gradient", "mismatch")
LAYOUTS: dict[str, tuple[str, ...]] = {
    "at_grpo": DEFAULT,
    "dapo": (*_GROUPED, "hard", "truncated", "clipped"),
    "gspo": (*_GROUPED, "clipped", "ratio", "length"),
    "cispo": (*_GROUPED, "ratio", "left_out", "gradient"),
    "reinforce_plus_plus": ("success", "return", "reward", "entropy", "kl", "gradient", "clipped", "mismatch", "length"),
    "reinforce_plus_plus_baseline": (*_GROUPED, "gradient", "clipped", "mismatch"),
    "ppo": _CRITIC,
    "mappo": _NETWORKS,
    "ippo": _NETWORKS,
    "custom_ppo": _NETWORKS,
}  # fmt: skip
"""algorithm.type -> ids of CHARTS, most important first."""


def overview_panels(run: Run, keys: Sequence[str], chosen: Sequence[str] = ()) -> list[Panel]:
    """Return the charts with data of a run that has reported the metrics `keys`, in this order: of the metrics that it has chosen,
    of its algorithm, and for a run without a trainer of Troupe, of the most important names.
    """
    reported = set(keys)
    named = named_panels(keys, [key for key in chosen if key in reported])
    usual = [panel for panel in layout_panels(run) if reported.intersection(panel.keys)]
    usual = usual[: max(FIRST, len(usual) // ROW * ROW)]
    most = max(MOST_CHARTS, len(usual))
    if run.is_custom or not usual:
        covered = {key for panel in usual for key in panel.keys}
        usual += [panel for panel in named if not covered.intersection(panel.keys)]
    first = [
        next(panel for panel in [*usual, *named] if key in panel.keys) for key in chosen if key in reported
    ]
    panels = list({panel.id: panel for panel in [*first, *usual]}.values())[:most]
    for panel in panels:
        panel.lines = [line for line in panel.lines if line.key in reported]
    return panels


def layout_panels(run: Run) -> list[Panel]:
    """Return all charts of the layout of the run's algorithm."""
    names = LAYOUTS.get(run.config.get("algorithm", {}).get("type", ""), DEFAULT)
    return [panel_of(name, run) for name in names]


def panel_get(chart: str, keys: Sequence[str], run: Run) -> Panel | None:
    """Return the panel with this id: one of all metrics, of the overview, or of CHARTS."""
    panels = [panel for section in all_sections(keys, run) for panel in section.panels]
    match = next((panel for panel in [*panels, *named_panels(keys, keys)] if panel.id == chart), None)
    return match or (panel_of(chart, run) if chart in CHARTS else None)


def panel_of(name: str, run: Run) -> Panel:
    """Return one of CHARTS for the team of a run."""
    chart, config = CHARTS[name], run.config
    lines = [line for metric in chart.lines for line in _lines(metric, config)]
    leaf = chart.lines[0][0].rsplit("/", 1)[-1]
    title, unit = shaped_label(chart.title, [config]), chart.unit or unit_of(leaf, config)
    return Panel(name, title, unit, lines, (0.0, 1.0) if leaf in SHARES and not run.is_custom else None)


def expanded(metric: str, config: Mapping[str, Any]) -> dict[str, tuple[str, int | None]]:
    """Return name and colour by key: of the metric, or of all roles or policies that it names by {role} or {policy}."""
    for word, tones in (("{role}", role_tones(config)), ("{policy}", policy_tones(config))):
        if word in metric:
            return {metric.replace(word, name): (name, tone) for name, tone in tones.items()}
    return {metric: ("", None)}


def _lines(metric: tuple[str, str, Tone], config: Mapping[str, Any]) -> list[ChartLine]:
    pattern, label, tone = metric
    lines = expanded(pattern, config).items()
    return [ChartLine(key, name or label, tone if own is None else own) for key, (name, own) in lines]


MOST_SHOWN = 1000
"""Maximum number of metrics that the curves page shows at once; of a run with more, it shows a part."""
WINDOW = 60
"""Number of metrics of a part; the browser loads the next part when its end is near the window."""

MOST_SECTIONS = 300
"""Maximum number of sections that the page offers; a search finds the metrics of others."""
MOST_OFFERED = 200
"""Number of metrics of such a run that the dialog of charts offers at first; it searches the others on the server."""


@dataclass(frozen=True)
class MetricPart:
    """The shown metrics of a run."""

    keys: list[str]
    matching: int
    """Number of metrics that match section and words."""
    sections: list[dict[str, Any]]
    """The sections with matching metrics, and how many they have; empty if all metrics of the run are shown."""
    after: str = ""
    """The last name of this part if further ones match."""
    error: str = ""
    """Why the search cannot be used."""
    limited: bool = False
    """Whether the run has more metrics than a page shows."""


def part_of(run: Run, section: str, text: str, *, is_pattern: bool = False, after: str = "") -> MetricPart:
    """Return all metrics of a run with at most MOST_SHOWN; else the first WINDOW that match, after the name `after`.

    text: words that names contain, or a regular expression. Later parts have no counts.
    """
    if run.series_count <= MOST_SHOWN:
        keys = key_names(run)
        return MetricPart(keys, len(keys), [])
    asked = {"pattern": text} if is_pattern else {"words": text}
    query = NameQuery(section=section, order=tuple(SECTIONS), **asked)
    counts: list[tuple[str, int]] = []
    try:
        if after:
            keys = names_list(run, query, WINDOW + 1, after)
        else:
            keys, counts = names_page(run, query, WINDOW + 1)
    except BadPattern as error:
        return MetricPart([], 0, [], error=str(error), limited=True)
    sections = [
        {"key": name, "name": SECTIONS.get(name, name), "count": count, "shown": name == section}
        for number, (name, count) in enumerate(counts)
        if number < MOST_SECTIONS or name == section
    ]
    matching = sum(count for name, count in counts if not section or name == section)
    more = keys[WINDOW - 1] if len(keys) > WINDOW else ""
    return MetricPart(keys[:WINDOW], matching, sections, more, limited=True)


def names_of_chart(run: Run, chart: str) -> list[str]:
    """Return the names that can belong to the chart with this id, which is made of the last parts of their names."""
    last = re.sub(r"--\d+$", "", chart).rpartition("-")[2]
    return names_like(run, re.sub(r"[^a-z0-9_]", "", last))
