"""Configs field by field: dotted paths, and what differs from a preset."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from training_core.config.files import load_config, set_fields
from training_core.config.kinds import AnyConfig
from training_core.errors import ConfigError


@dataclass(frozen=True)
class Change:
    """One field that is not as in the preset."""

    path: str
    preset: Any
    value: Any


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted path -> value of every field that is no section."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        path = f"{prefix}{name}"
        flat |= flatten(value, f"{path}.") if isinstance(value, Mapping) else {path: value}
    return flat


def preset_tree(preset: str) -> dict[str, Any]:
    """A preset with all its defaults, as JSON. Raises ConfigError."""
    return load_config(preset).model_dump(mode="json")


def changes(preset: str, config: Mapping[str, Any]) -> list[Change]:
    """Fields in which a resolved config departs from a preset; none where there is no such preset."""
    try:
        before = flatten(preset_tree(preset))
    except ConfigError:
        return []
    return [
        Change(path, before.get(path), value)
        for path, value in flatten(config).items()
        if before.get(path) != value
    ]


def departures(base: Mapping[str, Any], config: AnyConfig) -> dict[str, Any]:
    """The dotted overrides that make `config` of a preset's resolved tree. What has other names than in the preset (a
    role less) is given whole; what is of another type, by its type and what departs from the defaults of that.
    """
    return _departures(base, config.model_dump(mode="json"), set_fields(config))


def _departures(base: Mapping[str, Any], tree: Mapping[str, Any], brief: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in tree.items():
        before = base.get(name)
        said = brief.get(name, value) if isinstance(brief, Mapping) else value
        if not (isinstance(value, Mapping) and isinstance(before, Mapping)):
            found |= {} if value == before else {name: said}
        elif before.get("type") != value.get("type"):
            found |= flatten(said, f"{name}.")
        elif set(before) <= set(value):
            below = _departures(before, value, said)
            found |= {f"{name}.{path}": each for path, each in below.items()}
        else:
            found[name] = said
    return found
