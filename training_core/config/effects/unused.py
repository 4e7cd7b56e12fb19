"""Settings without an effect: values in a config that nothing reads in this combination.

Every field of every section has a rule in a table of this package. Validators refuse invalid combinations. Settings
that merely have no effect are reported: by the form, by `troupe launch`, by dry runs and in the run's log.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from training_core.config.base import Section
from training_core.config.effects.algorithms import ALGORITHMS
from training_core.config.effects.environments import ENVIRONMENTS
from training_core.config.effects.language_models import LANGUAGE_MODELS
from training_core.config.effects.networks import NETWORKS
from training_core.config.effects.rules import Effects, Place, Rule, always
from training_core.config.effects.shared import SHARED
from training_core.config.experiment import ExperimentConfig

EFFECTS: Effects = {**SHARED, **NETWORKS, **LANGUAGE_MODELS, **ALGORITHMS, **ENVIRONMENTS}
"""By class that declares a field, and by field."""


@dataclass(frozen=True)
class Unused:
    """A setting without effect."""

    path: str
    """Dotted path, such as algorithm.clip_low."""
    why: str

    def __str__(self) -> str:
        return f"{self.path} has no effect here: {self.why}"


def unused_settings(config: ExperimentConfig) -> list[Unused]:
    """Fields that differ from their default and change nothing in this config, in the config's order."""
    return list(_below(Place(config, config, ""), ""))


def rule_of(section: type[Section], field: str) -> Rule:
    """The rule of a field, from the first class in the section's method resolution order. Raises KeyError if no table has it."""
    for kind in section.__mro__:
        if field in EFFECTS.get(kind, {}):
            return EFFECTS[kind][field]
    raise KeyError(
        f"{section.__name__}.{field} is in no table of training_core/config/effects: add a rule for when it has an "
        "effect"
    )


def _below(at: Place, why: str) -> Iterator[Unused]:
    """Unused settings of a section; `why` is the reason if the whole section has no effect."""
    for name, field in type(at.section).model_fields.items():
        value, path = getattr(at.section, name), f"{at.path}.{name}".lstrip(".")
        reason = why or _rule(type(at.section), name)(at)
        default = field.get_default(call_default_factory=True)
        if isinstance(value, Section):
            kind = getattr(value, "type", None)
            if reason and kind != getattr(default, "type", kind):
                yield Unused(f"{path}.type", reason)
            yield from _below(Place(at.config, value, path), reason)
        elif isinstance(value, dict) and any(isinstance(part, Section) for part in value.values()):
            for key, part in value.items():
                yield from _below(Place(at.config, part, f"{path}.{key}"), reason)
        elif reason and _differs(value, default):
            yield Unused(path, reason)


def _rule(section: type[Section], field: str) -> Rule:
    """As rule_of; a field in no table counts as having an effect, because a report must not end a run."""
    try:
        return rule_of(section, field)
    except KeyError:
        return always(field)[field]


def _differs(value: Any, default: Any) -> bool:
    return bool(value != default)
