"""When a field of the config has an effect: rules, and the tables that they are written in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from training_core.config.base import Section
from training_core.config.experiment import ExperimentConfig


@dataclass(frozen=True)
class Place:
    """Where a field stands."""

    config: ExperimentConfig
    section: Any
    """The section that has the field."""
    path: str
    """Of that section, dotted; empty for the config itself."""

    @property
    def name(self) -> str:
        """Of the section in its table: the policy's, the role's, the rule's."""
        return self.path.rsplit(".", 1)[-1]

    def named(self, table: str) -> str:
        """The name in this table of what the section belongs to: the policy of policies.planner.learner."""
        return self.path.removeprefix(f"{table}.").split(".", 1)[0]


Rule = Callable[[Place], str]
"""Why a field has no effect there; empty where it has one."""
Effects = Mapping[type[Section], Mapping[str, Rule]]
"""A rule for every field that a class declares; its subclasses share them."""


def always(names: str) -> dict[str, Rule]:
    """Fields, with blanks between them, that have an effect in every config."""
    return dict.fromkeys(names.split(), _always)


def needs(names: str, rule: Rule) -> dict[str, Rule]:
    """Fields, with blanks between them, that one rule is for."""
    return dict.fromkeys(names.split(), rule)


def where(field: str, *values: Any) -> Rule:
    """An effect only where a field of the same section has one of these values."""

    def rule(at: Place) -> str:
        now = getattr(at.section, field)
        said = " or ".join(f"{field} = {_spelled(value)}" for value in values)
        return "" if now in values else f"only with {said}"

    return rule


def unless(field: str, value: Any) -> Rule:
    """An effect only where a field of the same section has another value than this one, which disables something."""

    def rule(at: Place) -> str:
        now = getattr(at.section, field)
        return f"{field} = {_spelled(value)} leaves it unused" if now == value else ""

    return rule


def both(*rules: Rule) -> Rule:
    """An effect only where all of them find one; the first reason is given."""

    def rule(at: Place) -> str:
        return next((why for each in rules if (why := each(at))), "")

    return rule


def _always(at: Place) -> str:
    return ""


def _spelled(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)
