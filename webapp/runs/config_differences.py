"""Configs field by field: dotted paths, and differences from a preset."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from training_core.config.files import load_config, set_fields
from training_core.config.kinds import AnyConfig
from training_core.errors import ConfigError
from webapp.runs.models import Run
from webapp.runs.selectors import SYSTEM_TAGS

NAMES = ("run.name", "run.tags")
"""Fields that are edited on the run itself after its launch."""
LABELS = (*NAMES, "run.description")
"""Fields that describe a run: they are no settings of its training, and do not count as changes."""


@dataclass(frozen=True)
class Change:
    """One field that differs from the preset."""

    path: str
    preset: Any
    value: Any


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return dotted path -> value of every field that is not a section."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        path = f"{prefix}{name}"
        flat |= flatten(value, f"{path}.") if isinstance(value, Mapping) else {path: value}
    return flat


def config_named(run: Run) -> dict[str, Any]:
    """Return a run's config with the run's present name and tags."""
    return {**run.config, "run": {**run.config["run"], "name": run.name, "tags": run.tags}}


def config_again(run: Run) -> dict[str, Any]:
    """Return the config of a new run that repeats this one: as `config_named`, without the tags that Troupe itself sets."""
    config = config_named(run)
    tags = [tag for tag in run.tags if tag not in SYSTEM_TAGS]
    return {**config, "run": {**config["run"], "tags": tags}}


def preset_tree(preset: str) -> dict[str, Any]:
    """Return a preset with all its defaults, as JSON. Raises ConfigError."""
    return load_config(preset).model_dump(mode="json")


def changes(preset: str, config: Mapping[str, Any]) -> list[Change]:
    """Return the fields in which a resolved config differs from a preset; none if the preset does not exist."""
    try:
        before = flatten(preset_tree(preset))
    except ConfigError:
        return []
    return [
        Change(path, before.get(path), value)
        for path, value in flatten(config).items()
        if before.get(path) != value
    ]


def settings_count(overrides: Iterable[str]) -> int:
    """Return how many of these dotted paths are settings."""
    return sum(path not in LABELS for path in overrides)


def departures(base: Mapping[str, Any], config: AnyConfig) -> dict[str, Any]:
    """Return the dotted overrides that turn a preset's resolved tree into `config`. A table with other names than in the preset (a
    missing role) is returned whole; a part of another type, as its type and the differences from that type's defaults.
    """
    return _departures(base, config.model_dump(mode="json"), set_fields(config))


def _departures(base: Mapping[str, Any], tree: Mapping[str, Any], brief: Any) -> dict[str, Any]:
    departures: dict[str, Any] = {}
    for name, value in tree.items():
        before = base.get(name)
        setting = brief.get(name, value) if isinstance(brief, Mapping) else value
        if not (isinstance(value, Mapping) and isinstance(before, Mapping)):
            departures |= {} if value == before else {name: setting}
        elif before.get("type") != value.get("type"):
            departures |= flatten(setting, f"{name}.")
        elif set(before) <= set(value):
            below = _departures(before, value, setting)
            departures |= {f"{name}.{path}": departure for path, departure in below.items()}
        else:
            departures[name] = setting
    return departures


def groupings(configs: Iterable[Mapping[str, Any]], chosen: str = "") -> list[tuple[str, str]]:
    """Return the ways to group runs: family, run, every config field with several values, and the chosen field."""
    values: dict[str, set[str]] = {}
    for config in map(flatten, configs):
        for path, value in config.items():
            values.setdefault(path, set()).add(str(value))
    fields = [path for path, met in values.items() if len(met) > 1]
    if chosen and chosen not in ("family", "run", *fields):
        fields.append(chosen)
    return [("family", "everything except the seed"), ("run", "each run"), *((path, path) for path in fields)]
