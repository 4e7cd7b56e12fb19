"""Run configs on disk and on the command line: TOML files, presets and their gallery, dotted overrides."""

import tomllib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from training_core.config.base import Section
from training_core.config.errors import all_errors, error_messages
from training_core.config.kinds import AnyConfig, config_kind
from training_core.errors import ConfigError
from training_core.json_lines import check_values


@dataclass(frozen=True)
class Expected:
    """Purpose of a preset in one line, with expected time and result: the table [gallery] of its file, without `position`."""

    task: str
    """The task; presets of one task are listed together."""
    purpose: str
    time: str
    """Duration, and on which machine."""
    result: str
    """Final values of metrics."""


def expected_of(preset: str) -> Expected | None:
    """The description of a preset; None if its file has none."""
    table = read_gallery(preset)
    return Expected(table["task"], table["purpose"], table["time"], table["result"]) if table else None


def has_words(text: str, wanted: str) -> bool:
    """Whether every word of `wanted` occurs in the text, ignoring case."""
    return all(word in text.casefold() for word in wanted.casefold().split())


def searched_text(name: str, description: str, agents: str) -> str:
    """The text in which a preset is searched; `agents` is the kind of agents in words."""
    about = expected_of(name)
    return " ".join([name, description, agents, about.task if about else "", about.purpose if about else ""])


ENVIRONMENT_PACKAGES = tuple(
    Path(__file__).parents[1] / agents / "environments" for agents in ("llm", "marl")
)
"""Packages whose folders have presets."""
GALLERY = "gallery"
"""The table of a preset's file that describes the preset and is not part of the config."""


def preset_names() -> list[str]:
    """Names of the presets that ship with Troupe: by their position in the gallery, then by name."""
    return list(_presets())


def read_preset(name: str) -> dict[str, Any]:
    """A preset as a plain tree. Raises ConfigError, which lists the existing presets."""
    tree = deepcopy(_preset(name))
    tree.pop(GALLERY, None)
    return tree


def read_gallery(name: str) -> dict[str, Any]:
    """The table [gallery] of a preset's file; empty if it has none. Raises ConfigError as read_preset."""
    return dict(_preset(name).get(GALLERY, {}))


def read_toml(text: str) -> dict[str, Any]:
    """TOML text as a plain tree, without the table [gallery] of presets. Raises ConfigError with line and column."""
    tree = _parse(text)
    tree.pop(GALLERY, None)
    return tree


def to_toml(config: AnyConfig, *, only_set: bool = False) -> str:
    """The config as TOML; with `only_set`, without fields at their default."""
    tree = (
        set_fields(config) if only_set else _typed(config, config.model_dump(mode="json", exclude_none=True))
    )
    import tomlkit  # only to write: a machine that trains from a script may lack it

    return tomlkit.dumps(tree)


def set_fields(config: AnyConfig) -> dict[str, Any]:
    """The config as a plain tree without fields at their default; each part includes its `type`."""
    return _typed(config, config.model_dump(mode="json", exclude_defaults=True, exclude_none=True))


def parse_config(tree: Mapping[str, Any]) -> AnyConfig:
    """Validate a plain tree. Raises ConfigError with one message per dotted field path, cross-field errors included."""
    kind = config_kind(tree).config
    try:
        config = kind.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(all_errors(tree, kind) or error_messages(error, kind)) from error
    _check_fork_edits(config)
    return config


def load_config(preset: str, overrides: Mapping[str, Any] | None = None) -> AnyConfig:
    """A preset with dotted overrides applied. Raises ConfigError."""
    return parse_config(apply_overrides(read_preset(preset), overrides or {}))


def apply_overrides(tree: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `tree` with each dotted path set to its value. Raises ConfigError.

    If a part's `type` changes, its other fields are dropped, because they belong to the old type.
    """
    result = _copy(tree)
    for path, value in sorted(overrides.items(), key=lambda item: not item[0].endswith(".type")):
        _set(result, path, value)
    return result


def parse_overrides(words: Sequence[str]) -> dict[str, Any]:
    """`key=value` words as a mapping; values are parsed as TOML, otherwise used as strings. Raises ConfigError."""
    overrides: dict[str, Any] = {}
    for word in words:
        path, sign, text = word.partition("=")
        if not sign or not path:
            raise ConfigError({path: f"{word!r} is not of the form key=value"})
        overrides[path.removeprefix("--")] = parse_value(text)
    return overrides


def parse_value(text: str) -> Any:
    """One override's value: parsed if it is TOML (0.2, true, [1, 2], "x"), otherwise the string itself."""
    try:
        return parse_toml(f"value = {text}")["value"]
    except ValueError:
        return text


def parse_toml(text: str) -> dict[str, Any]:
    """The tree of a TOML document. Raises ValueError, also for nesting and numbers that cannot be parsed."""
    try:
        tree = tomllib.loads(text)
        check_values(tree)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return tree


def _preset(name: str) -> dict[str, Any]:
    if name not in _presets():
        raise ConfigError({"preset": no_preset(name)})
    return _presets()[name]


def no_preset(name: str) -> str:
    """The message for an unknown preset: the preset with the most similar name, and all presets."""
    near = get_close_matches(name, _presets(), 1)
    suggestion = f"did you mean {near[0]}? Presets" if near else "presets"
    return f"no preset {name!r}; {suggestion} are {', '.join(_presets())}"


@cache
def _presets() -> dict[str, dict[str, Any]]:
    """The trees of the presets' files, with [gallery], in display order."""
    files = [path for package in ENVIRONMENT_PACKAGES for path in package.rglob("presets/*.toml")]
    trees = {path.stem: _parse(path.read_text()) for path in sorted(files, key=lambda path: path.stem)}
    last = float("inf")
    return dict(sorted(trees.items(), key=lambda item: item[1].get(GALLERY, {}).get("position", last)))


def _parse(text: str) -> dict[str, Any]:
    try:
        return parse_toml(text)
    except ValueError as error:
        raise ConfigError({"": f"not valid TOML: {error}"}) from error


def _check_fork_edits(config: AnyConfig) -> None:
    """Check that the fork edits of health rules give a valid config, so that a mistake is reported before the run starts."""
    wrong: dict[str, str] = {}
    for name, rule in config.health.rules().items():
        if rule.fork_edits:
            tree = config.model_dump(mode="json", exclude={"health"})
            try:
                parse_config(apply_overrides(tree, parse_overrides(rule.fork_edits)))
            except ConfigError as error:
                problems = "; ".join(f"{path}: {text}" for path, text in error.fields.items())
                wrong[f"health.{name}.fork_edits"] = problems
    if wrong:
        raise ConfigError(wrong)


def _typed(section: Section, tree: dict[str, Any]) -> dict[str, Any]:
    """The dump of a section, in which each remaining part has its `type` as the first key."""
    for name, below in section:
        if isinstance(below, Section) and name in tree:
            tree[name] = _typed(below, tree[name])
        elif isinstance(below, dict) and name in tree:
            tree[name] = {
                key: _typed(part, tree[name][key]) if isinstance(part, Section) else tree[name][key]
                for key, part in below.items()
            }
    return {"type": tag, **tree} if (tag := getattr(section, "type", None)) else tree


def _set(tree: dict[str, Any], path: str, value: Any) -> None:
    *parents, leaf = path.split(".")
    here = tree
    for name in parents:
        below = here.setdefault(name, {})
        if not isinstance(below, dict):
            raise ConfigError({path: f"{name!r} is a value, not a section"})
        here = below
    if leaf == "type" and here.get(leaf, value) != value:
        here.clear()
    here[leaf] = value


def _copy(tree: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _copy(value) if isinstance(value, Mapping) else value for key, value in tree.items()}
