"""All errors of a config tree: those of single fields, together with those between the fields that are valid.

Pydantic checks several fields only after each of them is valid, and stops at the first error. Here a wrong field is removed, so
that the rest can be built; a check that reads a removed field says nothing, because its result would not be the user's.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from pydantic import ValidationError

from training_core.config.base import FIELDS_ONLY, Section
from training_core.config.messages import cross_field_message, error_messages, places_of

Place = tuple[str, ...]
"""Names of a field and of the sections around it, from the root."""
MOST_REPAIRS = 50
"""Maximum number of removals of wrong fields; only a tree with more kinds of errors needs more."""


def all_errors(tree: Mapping[str, Any], model: type[Section]) -> dict[str, str]:
    """One message per dotted path, errors of single fields first; empty if the tree is valid."""
    repaired: dict[str, Any] = deepcopy(dict(tree))
    messages: dict[str, str] = {}
    removed: list[Place] = []
    for _ in range(MOST_REPAIRS):
        before = len(removed)
        try:
            config = model.model_validate(repaired, context=FIELDS_ONLY)
        except ValidationError as error:
            messages = messages or error_messages(error, model)
            for place in (places_of(model, item["loc"]) for item in error.errors()):
                if not any(place[: len(gone)] == gone for gone in removed[before:]):
                    removed.append(_removed(repaired, place))
            if () in removed:
                return messages  # the root cannot be built
        else:
            for place in removed:
                _forget(config, place)
            between = _cross_field_errors(config)
            return messages | {path: text for path, text in between.items() if path not in messages}
    return messages


def _removed(tree: dict[str, Any], place: Place) -> Place:
    """Remove the field at a place, or the section around it if the field is missing. Returns what was removed; () for the root."""
    here: Any = tree
    for depth, name in enumerate(place):
        if name not in here:
            return _removed(tree, place[:depth])
        if depth + 1 == len(place) or not isinstance(here[name], dict):
            del here[name]
            return place[: depth + 1]
        here = here[name]
    return ()


def _forget(config: Section, place: Place) -> None:
    """Delete a field of the built config, so that a check that reads it raises. Of a table with a removed entry, the whole table."""
    here: Any = config
    section, field = config, place[0]
    for name in place:
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
    for path, section in _sections(config):
        for check in _checks(type(section)):
            try:
                check(section)
            except ValueError as error:
                place, text = cross_field_message(path, str(error))
                messages.setdefault(place, text)
            except Exception:  # it reads a removed field, or relies on another check that has failed
                continue
    return messages


def _sections(section: Section, path: str = "") -> Iterator[tuple[str, Section]]:
    """The sections of a config with their dotted paths, inner ones first."""
    for name, value in vars(section).items():
        below = f"{path}.{name}" if path else name
        parts = value.items() if isinstance(value, Mapping) else ((None, value),)
        for key, part in parts:
            if isinstance(part, Section):
                yield from _sections(part, below if key is None else f"{below}.{key}")
    yield path, section


def _checks(kind: type[Section]) -> Iterator[Callable[[Any], Any]]:
    for name in kind.__pydantic_decorators__.model_validators:
        check = getattr(getattr(kind, name), "of_section", None)
        if check is not None:
            yield check
