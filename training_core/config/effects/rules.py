"""Rules that determine when a config field has an effect, and the type of their tables."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from training_core.config.base import Section
from training_core.config.experiment import ExperimentConfig


@dataclass(frozen=True)
class Place:
    """The location of a field."""

    config: ExperimentConfig
    section: Any
    """The section with the field."""
    path: str
    """Dotted path of that section; empty for the config itself."""

    @property
    def name(self) -> str:
        """The section's name in its table: the name of the policy, role or rule."""
        return self.path.rsplit(".", 1)[-1]

    def named(self, table: str) -> str:
        """The name in this table that the section's path contains: the policy of policies.planner.learner."""
        return self.path.removeprefix(f"{table}.").split(".", 1)[0]


Rule = Callable[[Place], str]
"""The reason why a field has no effect at a place; empty if it has one."""
Effects = Mapping[type[Section], Mapping[str, Rule]]
"""A rule for every field that a class declares; its subclasses inherit them."""


def always(names: str) -> dict[str, Rule]:
    """Fields, separated by spaces, that have an effect in every config."""
    return dict.fromkeys(names.split(), _always)


def own_fields(section: type[Section], base: type[Section]) -> dict[str, Rule]:
    """The `type` of a section and the fields that its base does not have; they have an effect in every config."""
    return always(" ".join({"type", *section.model_fields} - (base.model_fields.keys() - {"type"})))


def needs(names: str, rule: Rule) -> dict[str, Rule]:
    """Fields, separated by spaces, with one rule."""
    return dict.fromkeys(names.split(), rule)


def where(field: str, *values: Any) -> Rule:
    """An effect only if a field of the same section has one of these values."""

    def rule(at: Place) -> str:
        now = getattr(at.section, field)
        condition = " or ".join(f"{field} = {_spelled(value)}" for value in values)
        return "" if now in values else f"only with {condition}"

    return rule


def switched(section: type[Section], switch: str) -> dict[str, Rule]:
    """The fields of a section: one enables a component, and the others have an effect if it is enabled."""
    return needs(" ".join(section.model_fields), where(switch, True)) | always(switch)


def unless(field: str, value: Any) -> Rule:
    """An effect only if a field of the same section differs from this value, which disables it."""

    def rule(at: Place) -> str:
        now = getattr(at.section, field)
        return f"{field} = {_spelled(value)} leaves it unused" if now == value else ""

    return rule


def both(*rules: Rule) -> Rule:
    """An effect only if all rules give one; returns the first reason."""

    def rule(at: Place) -> str:
        return next((why for condition in rules if (why := condition(at))), "")

    return rule


def _always(at: Place) -> str:
    return ""


def _spelled(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)
