"""What the form sends: posted text to config values, and what departs from the preset."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from training_core.config.files import apply_overrides, parse_value, preset_names
from training_core.config.kinds import AnyConfig, has_networks
from training_core.errors import ConfigError
from webapp.experiments.fields import Field, Section, config_sections, value_at
from webapp.runs.config_differences import departures, flatten, preset_tree
from webapp.runs.permitted import parse_permitted

STRUCTURE = {"structure.roles": "team.roles", "structure.policies": "policies"}
"""Hidden inputs with the names of a table, with commas -> the table."""
FIRST = "plan_path_duo"
"""The preset that the form begins with: the demonstration."""
NAME = re.compile(r"[^.,\s]{1,80}")
"""What can be part of a dotted path."""
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
        r"policies\.[^.]+\.model",
        r"policies\.[^.]+\.learner\.learning_rate",
        r"rollout\.environments",
        r"rollout\.steps",
        r"policies\.[^.]+\.network\.type",
        r"policies\.[^.]+\.learner\.(actor|critic)_learning_rate",
    )
)
"""Fields that stand open at the top; a later pattern comes after an earlier one."""
TEAM = re.compile(r"team\.(roles\.[^.]+\.(policy|trained|prompt)|turn_order|parallel)")
"""Fields that the team editor has."""


@dataclass(frozen=True)
class Draft:
    """An experiment that is being set up."""

    preset: str
    base: dict[str, Any]
    """The preset, resolved."""
    tree: dict[str, Any]
    """The same with what was changed."""
    overrides: dict[str, Any]
    config: AnyConfig | None
    """None while something is wrong."""
    errors: dict[str, str]

    @property
    def networks(self) -> bool:
        """Whether its agents are small networks."""
        return has_networks(self.tree)

    @cached_property
    def sections(self) -> list[Section]:
        """The form's sections, with values and errors."""
        return config_sections(self.tree, self.base, self.errors)

    @cached_property
    def fields(self) -> dict[str, Field]:
        """All fields by path, in the form's order."""
        return {each.path: each for section in self.sections for each in section.walk()}


def draft_make(preset: str, overrides: Mapping[str, Any]) -> Draft:
    """A preset under dotted overrides, validated. Raises ConfigError where there is no such preset."""
    base = preset_tree(preset)
    departing = {path: value for path, value in overrides.items() if value_at(base, path) != value}
    try:
        return _draft(preset, base, apply_overrides(base, departing), departing)
    except ConfigError as error:  # an override names no place
        return Draft(preset, base, _tree(base, departing), departing, None, error.fields)


def draft_from_tree(preset: str, tree: dict[str, Any]) -> Draft:
    """A whole tree as a departure from a preset. Raises ConfigError where there is no such preset."""
    base = preset_tree(preset)
    before = flatten(base)
    departing = {path: value for path, value in flatten(tree).items() if before.get(path) != value}
    return _draft(preset, base, tree, departing)


def _draft(preset: str, base: dict[str, Any], tree: dict[str, Any], departing: dict[str, Any]) -> Draft:
    try:
        config = parse_permitted(tree)
    except ConfigError as error:
        return Draft(preset, base, _shaped(base, tree), departing, None, error.fields)
    return Draft(preset, base, config.model_dump(mode="json"), departures(base, config), config, {})


def _shaped(base: Mapping[str, Any], tree: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """The tree, with the base's tables and lists where it has something else in their place: pages can draw it.

    Where the base has an empty table any text may stand: it is a field, to be put right there. Roles and policies that were
    taken out stay out.
    """
    shaped = dict(tree)
    named = path in STRUCTURE.values()
    for name, before in base.items():
        if named and name not in tree:
            continue
        value = tree.get(name)
        if isinstance(before, Mapping) and before:
            below = f"{path}.{name}" if path else name
            shaped[name] = _shaped(before, value, below) if isinstance(value, Mapping) else before
        elif isinstance(before, list) and not isinstance(value, list):
            shaped[name] = before
    return shaped


def _tree(base: dict[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The values to show while something is wrong; overrides that name no place are left out."""
    tree = base
    for path, value in overrides.items():
        try:
            tree = apply_overrides(tree, {path: value})
        except ConfigError:
            continue
    return tree


def draft_from_query(query: Mapping[str, str]) -> Draft:
    """?preset=NAME&algorithm.clip_low=0.3: what is no dotted path is left out."""
    preset = query.get("preset", "")
    return draft_make(preset if preset in preset_names() else FIRST, query_overrides(query))


def query_overrides(query: Mapping[str, str]) -> dict[str, Any]:
    """Fields that an address sets."""
    return {path: parse_value(text) for path, text in query.items() if "." in path}


def draft_from_run(preset: str, config: Mapping[str, Any]) -> Draft:
    """A run's config as a departure from its preset; from the demonstration's where it had none."""
    return draft_from_tree(preset if preset in preset_names() else FIRST, dict(config))


def draft_edited(draft: Draft, query: Mapping[str, str]) -> Draft:
    """A draft with the fields that an address sets. Raises ConfigError where it sets what is no field."""
    edits = query_overrides(query)
    return draft_from_tree(draft.preset, apply_overrides(draft.tree, edits)) if edits else draft


def draft_from_post(post: Mapping[str, str]) -> Draft:
    """What the form holds. Raises ConfigError where its preset is gone."""
    preset = post.get("preset", "")
    base = preset_tree(preset)
    shape = _posted_shape(base, post)
    fields = [each for section in config_sections(shape, base, {}) for each in section.walk()]
    posted = {each.path: posted_value(each, post) for each in fields if _was_posted(each, post)}
    return draft_from_tree(preset, apply_overrides(shape, posted))


def _posted_shape(base: dict[str, Any], post: Mapping[str, str]) -> dict[str, Any]:
    """The preset's tree with the roles, policies and types of parts that the form has."""
    shape = apply_overrides(base, {})
    for path, at in STRUCTURE.items():
        names = [name for name in post.get(path, "").split(",") if NAME.fullmatch(name)]
        if names:
            section, _, table = at.rpartition(".")
            whole = value_at(shape, section) if section else shape
            whole[table] = {name: (whole[table] or {}).get(name, {}) for name in names}
    fields = [each for section in config_sections(shape, base, {}) for each in section.walk()]
    types = {each.path: post[each.path] for each in fields if each.reshapes and each.path in post}
    return apply_overrides(shape, types)


def _was_posted(field: Field, post: Mapping[str, str]) -> bool:
    return field.path in post or (field.kind == "bool" and f"{field.path}.shown" in post)


def posted_value(field: Field, post: Mapping[str, str]) -> Any:
    """Text as the value it spells; what spells none stays text, for the config to complain about."""
    if field.kind == "bool":
        return field.path in post
    text = post[field.path].strip()
    if field.kind in ("int", "float"):
        return _number(text)
    if field.kind == "choice":
        return next((choice for choice in field.choices if str(choice) == text), text)
    if field.kind == "list":
        return _list(text, numeric=_numeric(field.preset))
    if field.kind == "table":
        return _table(text)
    return post[field.path].replace("\r\n", "\n") if field.kind == "long" else text


def _list(text: str, *, numeric: bool) -> Any:
    """Items between commas, or a TOML array."""
    if text.startswith("["):
        array = _table(f"items = {text}")
        return array["items"] if isinstance(array, dict) else text
    items = [item.strip() for item in text.split(",") if item.strip()]
    return [_number(item) for item in items] if numeric else items


def _table(text: str) -> dict[str, Any] | str:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return text


def _numeric(value: Any) -> bool:
    return bool(value) and all(isinstance(item, int | float) for item in value)


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def essentials(draft: Draft) -> list[Field]:
    """The fields that stand at the top, in the order of ESSENTIALS."""
    return [each for pattern in ESSENTIALS for path, each in draft.fields.items() if pattern.fullmatch(path)]


def stands_apart(path: str) -> bool:
    """Whether a field stands at the top or in the team editor, and not in its section."""
    return bool(TEAM.fullmatch(path)) or any(pattern.fullmatch(path) for pattern in ESSENTIALS)
