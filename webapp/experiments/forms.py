"""Parsing of the form: posted text to config values, and the differences from the preset."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from training_core.config.files import (
    apply_overrides,
    parse_config,
    parse_overrides,
    parse_toml,
    parse_value,
    preset_names,
)
from training_core.config.kinds import AnyConfig
from training_core.errors import ConfigError
from webapp.agents.pages import AgentPages
from webapp.agents.registry import agent_pages
from webapp.checkpoints.models import Checkpoint
from webapp.experiments.fields import Field, FormSection, config_sections, value_at
from webapp.runs.configs import (
    config_again,
    departures,
    flatten,
    parse_permitted,
    preset_tree,
    settings_count,
)
from webapp.runs.models import Run
from webapp.scheduling.forking import check_fits

STRUCTURE = {"structure.roles": "team.roles", "structure.policies": "policies"}
"""Hidden inputs with the comma-separated names of a table -> the table."""
FIRST = "plan_path_duo"
"""The default preset of the form: the demonstration."""
NAME = re.compile(r"[^.,\s]{1,80}")
"""Valid parts of a dotted path."""
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
"""Patterns of the fields at the top of the form, in display order."""
TEAM = re.compile(r"team\.(roles\.[^.]+\.(policy|trained|prompt)|turn_order|parallel)")
"""Fields of the team editor."""


@dataclass(frozen=True)
class Draft:
    """An experiment in preparation."""

    preset: str
    base: dict[str, Any]
    """The resolved preset; for a fork, the config of its parent."""
    tree: dict[str, Any]
    """The base with the changes."""
    overrides: dict[str, Any]
    """The changes."""
    config: AnyConfig | None
    """None while there are errors."""
    errors: dict[str, str]
    origin: Checkpoint | None = None
    """The checkpoint from which a fork starts."""

    @property
    def base_name(self) -> str:
        """The name of the preset, or of a fork's parent."""
        return self.origin.run.name if self.origin else self.preset

    @property
    def changes(self) -> int:
        """The number of changed settings: name, description and tags are not counted."""
        return settings_count(self.overrides)

    @property
    def agents(self) -> AgentPages:
        """What the form shows for its kind of agents."""
        return agent_pages(self.tree)

    @cached_property
    def sections(self) -> list[FormSection]:
        """The form's sections, with values and errors."""
        return config_sections(self.tree, self.base, self.errors)

    @cached_property
    def fields(self) -> dict[str, Field]:
        """All fields by path, in the form's order."""
        return {field.path: field for section in self.sections for field in section.walk()}


def draft_make(preset: str, overrides: Mapping[str, Any]) -> Draft:
    """Return a preset with dotted overrides, validated. Raises ConfigError if the preset does not exist."""
    base = preset_tree(preset)
    departing = {path: value for path, value in overrides.items() if value_at(base, path) != value}
    try:
        return _draft(preset, base, apply_overrides(base, departing), departing)
    except ConfigError as error:  # an override has an invalid path
        return Draft(preset, base, _tree(base, departing), departing, None, error.fields)


def draft_from_tree(preset: str, tree: dict[str, Any], origin: Checkpoint | None = None) -> Draft:
    """Return a complete tree as differences from a preset, or from the parent of a fork that starts at `origin`.

    Raises ConfigError if the preset does not exist, or the parent's config is of another version.
    """
    base = base_tree(preset, origin)
    before = flatten(base)
    departing = {path: value for path, value in flatten(tree).items() if before.get(path) != value}
    return _draft(preset, base, tree, departing, origin)


def base_tree(preset: str, origin: Checkpoint | None) -> dict[str, Any]:
    """Return the complete tree to which the changes refer. Raises ConfigError."""
    return parse_config(origin.run.config).model_dump(mode="json") if origin else preset_tree(preset)


def _draft(
    preset: str,
    base: dict[str, Any],
    tree: dict[str, Any],
    departing: dict[str, Any],
    origin: Checkpoint | None = None,
) -> Draft:
    try:
        config = parse_permitted(tree)
        if origin:
            check_fits(config, origin)
    except ConfigError as error:
        return Draft(preset, base, _shaped(base, tree), departing, None, error.fields, origin)
    return Draft(preset, base, config.model_dump(mode="json"), departures(base, config), config, {}, origin)


def _shaped(base: Mapping[str, Any], tree: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Return the tree with mismatched tables and lists replaced by the base's, so that pages can display it.

    Text in place of an empty table of the base is kept: it is a field, to be corrected there. Removed roles and policies
    stay removed.
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
    """Return the values to show while there are errors; overrides with invalid paths are ignored."""
    tree = base
    for path, value in overrides.items():
        try:
            tree = apply_overrides(tree, {path: value})
        except ConfigError:
            continue
    return tree


def draft_from_query(query: Mapping[str, str]) -> Draft:
    """Parse ?preset=NAME&algorithm.clip_low=0.3; other parameters are ignored."""
    preset = query.get("preset", "")
    return draft_make(preset if preset in preset_names() else FIRST, query_overrides(query))


def query_overrides(query: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields set by a query string."""
    return {path: parse_value(text) for path, text in query.items() if "." in path}


def lines_overrides(text: str) -> dict[str, Any]:
    """Return the fields set by lines of path=value. Raises ConfigError."""
    return parse_overrides([line.strip() for line in text.split("\n") if line.strip()])


def draft_from_run(preset: str, config: Mapping[str, Any]) -> Draft:
    """Return a run's config as differences from its preset; from the demonstration's if it had none."""
    return draft_from_tree(preset if preset in preset_names() else FIRST, dict(config))


def draft_for_fork(origin: Checkpoint, query: Mapping[str, str], again: Run | None = None) -> Draft:
    """Return the draft of a fork with the fields of a query string. Raises ConfigError for an unknown field.

    Its config is that of the checkpoint's run, or of the fork `again`, which it repeats.
    A parent that has no iterations left is continued for as many as it had.
    """
    parent = origin.run
    tree = config_again(again) if again else base_tree(parent.preset, origin)
    edits = query_overrides(query)
    if tree["run"]["iterations"] <= origin.iteration:
        edits = {"run.iterations": origin.iteration + tree["run"]["iterations"]} | edits
    preset = parent.preset if parent.preset in preset_names() else FIRST
    return draft_from_tree(preset, apply_overrides(tree, edits), origin)


def draft_edited(draft: Draft, query: Mapping[str, str]) -> Draft:
    """Apply the fields of a query string to a draft. Raises ConfigError for an unknown field."""
    edits = query_overrides(query)
    return draft_from_tree(draft.preset, apply_overrides(draft.tree, edits)) if edits else draft


def draft_from_post(post: Mapping[str, str], origin: Checkpoint | None = None) -> Draft:
    """Return the form's draft; of a fork if it starts at `origin`. Raises ConfigError if its preset no longer exists."""
    preset = post.get("preset", "")
    base = base_tree(preset, origin)
    shape = _posted_shape(base, post)
    fields = [field for section in config_sections(shape, base, {}) for field in section.walk()]
    posted = {field.path: posted_value(field, post) for field in fields if _was_posted(field, post)}
    return draft_from_tree(preset, apply_overrides(shape, posted), origin)


def _posted_shape(base: dict[str, Any], post: Mapping[str, str]) -> dict[str, Any]:
    """Return the preset's tree with the roles, policies and types of parts in the form."""
    shape = apply_overrides(base, {})
    for path, at in STRUCTURE.items():
        names = [name for name in post.get(path, "").split(",") if NAME.fullmatch(name)]
        if names:
            section, _, table = at.rpartition(".")
            whole = value_at(shape, section) if section else shape
            whole[table] = {name: (whole[table] or {}).get(name, {}) for name in names}
    fields = [field for section in config_sections(shape, base, {}) for field in section.walk()]
    types = {field.path: post[field.path] for field in fields if field.reshapes and field.path in post}
    return apply_overrides(shape, types)


def _was_posted(field: Field, post: Mapping[str, str]) -> bool:
    return field.path in post or (field.kind == "bool" and f"{field.path}.shown" in post)


def posted_value(field: Field, post: Mapping[str, str]) -> Any:
    """Parse text as the field's type; invalid text stays text, and the config's validation reports it."""
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
    """Parse comma-separated items, or a TOML array."""
    if text.startswith("["):
        array = _table(f"items = {text}")
        return array["items"] if isinstance(array, dict) else text
    items = [item.strip() for item in text.split(",") if item.strip()]
    return [_number(item) for item in items] if numeric else items


def _table(text: str) -> dict[str, Any] | str:
    try:
        return parse_toml(text)
    except ValueError:
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
    """Return the fields at the top of the form, in the order of ESSENTIALS."""
    return [
        field for pattern in ESSENTIALS for path, field in draft.fields.items() if pattern.fullmatch(path)
    ]


def stands_apart(path: str) -> bool:
    """Whether a field is shown at the top or in the team editor instead of its section."""
    return bool(TEAM.fullmatch(path)) or any(pattern.fullmatch(path) for pattern in ESSENTIALS)
