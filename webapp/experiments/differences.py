"""Configs field by field: dotted paths, and what differs from a preset."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from training_core.config.files import load_config
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
