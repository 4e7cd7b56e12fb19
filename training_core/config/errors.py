"""The errors of a config by dotted field path, with a suggestion for a misspelt name: those of single fields, together with those
between the fields that are valid.

Pydantic checks several fields only after each of them is valid, and stops at the first error. Here a wrong field is removed, so
that the rest can be built; a check that reads a removed field says nothing, because its result would not be the user's.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError

from training_core.config.base import FIELDS_ONLY, Section, classes_below, section_classes, sections
from training_core.config.foreign import NO_FIELD, no_such_field
from training_core.errors import Advice, InvalidValue

TAG = "union_tag_invalid"
MESSAGES = {
    "missing": "this field is required",
    "model_type": "give a table of fields",
    "model_attributes_type": "give a table of fields",
    "dict_type": "write one `name = value` per line, as in TOML",
    "int_type": "give a whole number",
    "int_parsing": "give a whole number",
    "int_from_float": "give a whole number",
    "float_type": "give a number",
    "float_parsing": "give a number",
    "finite_number": "give a finite number",
    "bool_type": "give true or false",
    "list_type": "give a list",
    "bool_parsing": "give true or false",
    "string_type": "give a text",
    "greater_than": "give more than {gt}",
    "greater_than_equal": "give {ge} or more",
    "less_than": "give less than {lt}",
    "less_than_equal": "give {le} or less",
    "too_short": "give at least {min_length} items",
    "too_long": "give at most {max_length} items",
    "string_too_short": "give at least {min_length} characters",
    "string_too_long": "give at most {max_length} characters",
    "literal_error": "use {expected}",
    TAG: "there is no type '{tag}'",
}
"""Messages for pydantic's errors of these types; {names} are pydantic's. Others keep pydantic's message."""
CHOICES = "use one of {expected_tags}"
"""Remedy for a tag that does not exist."""
SYNONYMS = {"lr": "policies.*.learner.learning_rate", "batch_size": "rollout.tasks"}
"""Common names of fields -> ours."""
ALIKE = 0.6
"""Similarity of names, as difflib defines it, above which one is suggested for the other."""


def error_messages(error: ValidationError, model: type[BaseModel]) -> dict[str, str]:
    """One message per path. A cross-field message that begins with a path is stored under that path."""
    messages: dict[str, str] = {}
    for item in error.errors():
        places, text, context = item["loc"], item["msg"], item.get("ctx", {})
        path = ".".join(names_of(model, places))
        if item["type"] == "value_error":
            path, text = cross_field_message(path, context["error"])
        if item["type"] == TAG:
            path = f"{path}.type"
        kind = "missing" if item["input"] == "" and item["type"].startswith("string_") else item["type"]
        if kind == "extra_forbidden":
            text = no_such_field(path)
            text += _field_like(path, model, places) if text == NO_FIELD else ""
        elif kind in MESSAGES:
            text = MESSAGES[kind].format(**context)
            like = _choice_like(context.get("tag", item["input"]), context)
            text = Advice(text, CHOICES.format(**context) + like) if kind == TAG else text + like
        messages.setdefault(path, text)
    return messages


def cross_field_message(path: str, error: ValueError) -> tuple[str, str]:
    """Path and text of an error of the section at `path`; a text that begins with a relative path is stored under that path."""
    text = error.advice if isinstance(error, InvalidValue) else Advice(str(error))
    head, sign, rest = text.cause.partition(": ")
    if not sign or " " in head:
        return path, text
    return ".".join(filter(None, (path, head))), Advice(rest, text.remedy)


def names_of(model: type[BaseModel], places: Sequence[int | str]) -> tuple[str, ...]:
    """The names of a field and of the sections around it, without the tags of unions (algorithm.at_grpo.clip_low)."""
    return tuple(str(name) for name, _ in _walk(model, places))


def _walk(
    model: type[BaseModel], places: Sequence[int | str]
) -> Iterator[tuple[int | str, list[type[BaseModel]]]]:
    """(name, section classes below it) of each part of a path that is not a tag."""
    sections: list[type[BaseModel]] = [model]
    for name in places:
        tagged = [section for section in sections if _tag(section) == name]
        if tagged:
            sections = tagged
            continue
        fields = [section.model_fields[name] for section in sections if name in section.model_fields]
        if fields:
            sections = [below for field in fields for below in section_classes(field.annotation)]
        yield name, sections


def _tag(section: type[BaseModel]) -> Any:
    return section.model_fields["type"].default if "type" in section.model_fields else None


def _field_like(path: str, model: type[BaseModel], places: Sequence[int | str]) -> str:
    """A suggestion for an unknown field: one of the same section, else a field of another section."""
    parent, _, leaf = path.rpartition(".")
    *_, (_, sections) = [("", [model]), *_walk(model, places[:-1])]
    names = {name for section in sections for name in section.model_fields}
    if leaf in SYNONYMS:
        return f"; did you mean {SYNONYMS[leaf]}?"
    if any(fnmatchcase(path, known) for known in _paths(model)):
        return f"; another type of {parent} has it"
    if near := get_close_matches(leaf, names, 1, ALIKE):
        return f"; did you mean {'.'.join(filter(None, (parent, near[0])))}?"
    by_leaf = {known.rpartition(".")[2]: known for known in reversed(_paths(model))}
    near = get_close_matches(leaf, by_leaf, 1, ALIKE)
    return f"; did you mean {by_leaf[near[0]]}?" if near else ""


@cache
def _paths(model: type[BaseModel]) -> tuple[str, ...]:
    """Dotted paths of all fields, with * for the keys of mappings."""
    below = [("", model), *classes_below(model)]
    return tuple(
        dict.fromkeys(f"{path}.{name}".lstrip(".") for path, part in below for name in part.model_fields)
    )


def _choice_like(value: Any, context: dict[str, Any]) -> str:
    """A suggestion for a value that is none of the choices."""
    choices = str(context.get("expected_tags") or context.get("expected") or "")
    names = [word.strip(" '") for word in choices.replace(" or ", ", ").split(",") if word.strip(" '")]
    near = get_close_matches(value, names, 1, ALIKE) if isinstance(value, str) else []
    return f"; did you mean '{near[0]}'?" if near else ""


Names = tuple[str, ...]
"""Names of a field and of the sections around it, from the root."""
MOST_REPAIRS = 50
"""Maximum number of removals of wrong fields; only a tree with more kinds of errors needs more."""


def all_errors(tree: Mapping[str, Any], model: type[Section]) -> dict[str, str]:
    """One message per dotted path, errors of single fields first; empty if the tree is valid."""
    repaired = dict(tree)
    messages: dict[str, str] = {}
    removed: list[Names] = []
    for _ in range(MOST_REPAIRS):
        before = len(removed)
        try:
            config = model.model_validate(repaired, context=FIELDS_ONLY)
        except ValidationError as error:
            messages = messages or error_messages(error, model)
            for names in (names_of(model, item["loc"]) for item in error.errors()):
                if not any(names[: len(gone)] == gone for gone in removed[before:]):
                    removed.append(_removed(repaired, names))
            if () in removed:
                return messages  # the root cannot be built
        else:
            for names in removed:
                _forget(config, names)
            between = _cross_field_errors(config)
            return messages | {path: text for path, text in between.items() if path not in messages}
    return messages


def _removed(tree: dict[str, Any], names: Names) -> Names:
    """Remove the field at a path, or the section around it if the field is missing. Returns what was removed; () for the root."""
    here: Any = tree
    for depth, name in enumerate(names):
        if name not in here:
            return _removed(tree, names[:depth])
        if depth + 1 == len(names) or not isinstance(here[name], dict):
            del here[name]
            return names[: depth + 1]
        here[name] = here = dict(here[name])  # the caller's tree stays as it is
    return ()


def _forget(config: Section, names: Names) -> None:
    """Delete a field of the built config, so that a check that reads it raises. Of a table with a removed entry, the whole table."""
    here: Any = config
    section, field = config, names[0]
    for name in names:
        if isinstance(here, Section):
            section, field = here, name
            here = vars(here).get(name)
        elif isinstance(here, Mapping):
            here = here.get(name)
        else:
            break
    vars(section).pop(field, None)


def _cross_field_errors(config: Section) -> dict[str, str]:
    """The messages of all checks that can be made; the first of each path counts."""
    messages: dict[str, str] = {}
    for path, section in sections(config, inner_first=True):
        for check in _checks(type(section)):
            try:
                check(section)
            except ValueError as error:
                field, text = cross_field_message(path, error)
                messages.setdefault(field, text)
            except Exception:  # it reads a removed field, or relies on another check that has failed
                continue
    return messages


def _checks(kind: type[Section]) -> Iterator[Callable[[Any], Any]]:
    for name in kind.__pydantic_decorators__.model_validators:
        check = getattr(getattr(kind, name), "of_section", None)
        if check is not None:
            yield check
