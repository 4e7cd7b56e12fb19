"""All errors of a config tree: those of single fields, together with those between the fields that are valid.

Pydantic checks several fields only after each of them is valid, and stops at the first error. Here a wrong field is removed, so
that the rest can be built; a check that reads a removed field says nothing, because its result would not be the user's.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from training_core.config.base import FIELDS_ONLY, Section
from training_core.config.messages import cross_field_message, error_messages, names_of

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
    for path, section in _sections(config):
        for check in _checks(type(section)):
            try:
                check(section)
            except ValueError as error:
                field, text = cross_field_message(path, str(error))
                messages.setdefault(field, text)
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
