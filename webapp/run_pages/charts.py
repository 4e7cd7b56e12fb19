"""Definitions of charts, and all metrics of a run as charts by section. The charts of the overview: webapp.run_pages.layouts."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from django.utils.text import slugify

from webapp.agents.registry import agent_pages
from webapp.agents.rewards import shaped_label
from webapp.common.tones import TONES, policy_tones, role_tones

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
    "entropy": "nats per token",
    "kl": "nats per token, to the base model",
    "clip_fraction": "share of tokens",
    "grad_norm": "L2",
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
    "overlong": "episodes",
    "dropped": "answers",
    "timeouts": "answers",
    "unscored": "answers",
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
    "buffer": "Rollout buffer",
    "time": "Time",
    "compute": "Compute",
    "progress": "Progress",
    "system": "System",
}
SHARES = {"success", "zero_variance", "too_easy", "too_hard", "filtered", "clip_fraction", "truncated"}


AXES = {
    "step": ("step", ""),
    "time": ("wall time", ""),
    "tokens": ("tokens", "progress/tokens"),
    "episodes": ("episodes", "progress/episodes"),
    "env_steps": ("environment steps", "progress/env_steps"),
}
"""Options of the x axis: label, and the metric with its value at each step."""
AXIS_KEYS = tuple(key for _, key in AXES.values() if key)


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


def is_custom(config: Mapping[str, Any]) -> bool:
    """Whether a program with its own training loop reports the run (webapp.scheduling.client_runs): its names mean what it decides."""
    return "client" in config


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


def all_sections(keys: Iterable[str], config: Mapping[str, Any]) -> list[ChartSection]:
    """Return every metric of a run; the metrics of all roles, policies or hosts share a chart."""
    tones: dict[str, Tone] = {**policy_tones(config), **role_tones(config)}
    panels: dict[str, dict[str, Panel]] = {}
    for key in (key for key in keys if key not in unused_keys(config)):
        section, chart, label = _place(key)
        panel = panels.setdefault(section, {}).setdefault(chart, _panel(section, chart, config))
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


def _panel(section: str, chart: str, config: Mapping[str, Any]) -> Panel:
    leaf, identity = chart.rsplit("/", 1)[-1], slugify(f"{section}-{chart}")
    if (
        is_custom(config) and section != "system"
    ):  # an equal name need not have the unit and the range of Troupe's metric
        return Panel(identity, chart, "")
    unit = "seconds" if section == "time" else unit_of(leaf, config)
    return Panel(identity, chart.replace("_", " "), unit, [], (0.0, 1.0) if leaf in SHARES else None)
