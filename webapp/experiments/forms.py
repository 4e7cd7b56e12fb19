"""What the form sends: posted text to config values, and what departs from the preset."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from training_core.config.files import apply_overrides, parse_config, parse_value, preset_names
from training_core.config.run import RunConfig
from training_core.errors import ConfigError
from webapp.experiments.differences import flatten, preset_tree
from webapp.experiments.fields import Field, Section, config_sections

ESSENTIALS = tuple(
    re.compile(pattern)
    for pattern in (
        r"run\.name",
        r"run\.iterations",
        r"run\.seed",
        r"run\.tags",
        r"environment\.type",
        r"algorithm\.type",
        r"rollout\.tasks",
        r"rollout\.group_size",
        r"team\.roles\.[^.]+\.policy",
        r"policies\.[^.]+\.model",
        r"policies\.[^.]+\.learner\.learning_rate",
    )
)
"""Fields that stand open at the top; a later pattern comes after an earlier one."""


@dataclass(frozen=True)
class Draft:
    """An experiment that is being set up."""

    preset: str
    base: dict[str, Any]
    """The preset, resolved."""
    tree: dict[str, Any]
    """The same with what was changed."""
    overrides: dict[str, Any]
    config: RunConfig | None
    """None while something is wrong."""
    errors: dict[str, str]


def draft_make(preset: str, overrides: Mapping[str, Any]) -> Draft:
    """A preset under dotted overrides, validated. Raises ConfigError where there is no such preset."""
    base = preset_tree(preset)
    departing = {path: value for path, value in overrides.items() if _at(base, path) != value}
    try:
        tree = apply_overrides(base, departing)
        config = parse_config(tree)
        return Draft(preset, base, config.model_dump(mode="json"), departing, config, {})
    except ConfigError as error:
        return Draft(preset, base, _tree(base, departing), departing, None, error.fields)


def _tree(base: dict[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The values to show while something is wrong; overrides that name no place are left out."""
    tree = base
    for path, value in overrides.items():
        try:
            tree = apply_overrides(tree, {path: value})
        except ConfigError:
            continue
    return tree


def _at(base: Mapping[str, Any], path: str) -> Any:
    here: Any = base
    for name in path.split("."):
        here = here.get(name) if isinstance(here, Mapping) else None
    return here


def draft_from_query(query: Mapping[str, str]) -> Draft:
    """?preset=NAME&algorithm.clip_low=0.3: what is no dotted path is left out."""
    preset = query.get("preset", "")
    return draft_make(preset if preset in preset_names() else preset_names()[0], query_overrides(query))


def query_overrides(query: Mapping[str, str]) -> dict[str, Any]:
    """Fields that an address sets."""
    return {path: parse_value(text) for path, text in query.items() if "." in path}


def draft_from_run(preset: str, config: Mapping[str, Any]) -> Draft:
    """A run's config as a departure from its preset; from the first preset where it had none."""
    known = preset if preset in preset_names() else preset_names()[0]
    return draft_make(known, flatten(config))


def draft_from_post(post: Mapping[str, str]) -> Draft:
    """What the form holds. Raises ConfigError where its preset is gone."""
    preset = post.get("preset", "")
    base = preset_tree(preset)
    fields = [each for section in config_sections(base, base, {}) for each in section.walk()]
    return draft_make(
        preset, {each.path: posted_value(each, post) for each in fields if _was_posted(each, post)}
    )


def _was_posted(field: Field, post: Mapping[str, str]) -> bool:
    return field.path in post or (field.kind == "bool" and f"{field.path}.shown" in post)


def posted_value(field: Field, post: Mapping[str, str]) -> Any:
    """Text as the value it spells; what spells none stays text, for the config to complain about."""
    if field.kind == "bool":
        return field.path in post
    text = post[field.path].strip()
    if field.kind in ("int", "float"):
        return _number(text)
    if field.kind == "list":
        items = [item.strip() for item in text.split(",") if item.strip()]
        return [_number(item) for item in items] if _numeric(field.preset) else items
    return post[field.path].replace("\r\n", "\n") if field.kind == "long" else text


def _numeric(value: Any) -> bool:
    return bool(value) and all(isinstance(item, int | float) for item in value)


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def essentials(sections: list[Section]) -> list[Field]:
    """The fields that stand at the top, in the order of ESSENTIALS."""
    fields = [each for section in sections for each in section.walk()]
    return [each for pattern in ESSENTIALS for each in fields if pattern.fullmatch(each.path)]


def is_essential(path: str) -> bool:
    """Whether a field stands at the top, and not in its section."""
    return any(pattern.fullmatch(path) for pattern in ESSENTIALS)
