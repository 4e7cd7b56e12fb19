"""Template filters: labels of returns."""

from collections.abc import Iterable, Mapping
from typing import Any

from django import template

from webapp.agents.registry import agent_pages
from webapp.agents.rewards import return_label, shaped_label

register = template.Library()


@register.filter
def returned(config: Mapping[str, Any] | None) -> str:
    """Return the label of the return of a run with this config: "return", or "return (shaped)"."""
    return return_label(config or {})


@register.filter
def episode_word(config: Mapping[str, Any] | None) -> str:
    """Return what pages call a stored episode of a run with this config: "transcript" or "episode"."""
    return agent_pages(config or {}).episodes.removesuffix("s")


@register.filter
def step_word(config: Mapping[str, Any] | None) -> str:
    """Return what a run with this config calls one action of an agent: "turn" or "step"."""
    return agent_pages(config or {}).step


@register.filter
def of_run(label: str, config: Mapping[str, Any]) -> str:
    """Return the label of a metric of a run with this config, as `of_runs`."""
    return shaped_label(label, [config])


@register.filter
def of_runs(label: str, runs: Iterable[Any]) -> str:
    """Return the label of a metric of these runs, with "(shaped)" after a return that includes shaped rewards."""
    return shaped_label(label, [run.config for run in runs])
