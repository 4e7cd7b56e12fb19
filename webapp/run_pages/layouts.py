"""Default charts of a run's overview, by algorithm.

A new algorithm needs no entry here: it gets DEFAULT. Charts of unreported metrics are omitted, so that a layout may contain
metrics of optional settings (a KL, a corrected ratio).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from webapp.agents.rewards import shaped_label
from webapp.common.tones import policy_tones, role_tones
from webapp.run_pages.charts import (
    GREEDY,
    NEUTRAL,
    SAMPLED,
    SHARES,
    ChartLine,
    Panel,
    Tone,
    all_sections,
    is_custom,
    unit_of,
)
from webapp.run_pages.headline_metrics import MOST_CHARTS, named_panels

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


def overview_panels(
    config: Mapping[str, Any], keys: Sequence[str], chosen: Sequence[str] = ()
) -> list[Panel]:
    """Return the charts with data of a run that has reported the metrics `keys`, in this order: of the metrics that it has chosen,
    of its algorithm, and for a run without a trainer of Troupe, of the most important names.
    """
    reported = set(keys)
    named = named_panels(keys, [key for key in chosen if key in reported])
    usual = [panel for panel in layout_panels(config) if reported.intersection(panel.keys)]
    usual = usual[: max(FIRST, len(usual) // ROW * ROW)]
    most = max(MOST_CHARTS, len(usual))
    if is_custom(config) or not usual:
        covered = {key for panel in usual for key in panel.keys}
        usual += [panel for panel in named if not covered.intersection(panel.keys)]
    first = [
        next(panel for panel in [*usual, *named] if key in panel.keys) for key in chosen if key in reported
    ]
    panels = list({panel.id: panel for panel in [*first, *usual]}.values())[:most]
    for panel in panels:
        panel.lines = [line for line in panel.lines if line.key in reported]
    return panels


def layout_panels(config: Mapping[str, Any]) -> list[Panel]:
    """Return all charts of the layout of the run's algorithm."""
    names = LAYOUTS.get(config.get("algorithm", {}).get("type", ""), DEFAULT)
    return [panel_of(name, config) for name in names]


def panel_get(chart: str, keys: Sequence[str], config: Mapping[str, Any]) -> Panel | None:
    """Return the panel with this id: one of all metrics, of the overview, or of CHARTS."""
    panels = [panel for section in all_sections(keys, config) for panel in section.panels]
    match = next((panel for panel in [*panels, *named_panels(keys, keys)] if panel.id == chart), None)
    return match or (panel_of(chart, config) if chart in CHARTS else None)


def panel_of(name: str, config: Mapping[str, Any]) -> Panel:
    """Return one of CHARTS for this team."""
    chart = CHARTS[name]
    lines = [line for metric in chart.lines for line in _lines(metric, config)]
    leaf = chart.lines[0][0].rsplit("/", 1)[-1]
    title, unit = shaped_label(chart.title, [config]), chart.unit or unit_of(leaf, config)
    return Panel(name, title, unit, lines, (0.0, 1.0) if leaf in SHARES and not is_custom(config) else None)


def _lines(metric: tuple[str, str, Tone], config: Mapping[str, Any]) -> list[ChartLine]:
    pattern, label, tone = metric
    for word, tones in (("{role}", role_tones(config)), ("{policy}", policy_tones(config))):
        if word in pattern:
            return [ChartLine(pattern.replace(word, name), name, tone) for name, tone in tones.items()]
    return [ChartLine(pattern, label, tone)]
