"""The values of `<parameter=key>` tags, which have no types of their own: the tool's JSON schema types them."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from training_core.llm.agents.strict_json import decode_json, encode_json

Schema = Mapping[str, Any]
_CONSTANTS = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}
_ALIASES = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "dict": "object",
    "list": "array",
}
_NAMES = {*_ALIASES.values(), "null"}
_UNDECLARED = frozenset(_NAMES - {"object", "array"})
"""Types of a parameter without a declared one. Text in brackets may be code, and stays text."""


def offered_functions(tools: Sequence[Any]) -> dict[str, Schema]:
    """The JSON schema of each offered tool's parameters, by the tool's name."""
    functions = [tool.get("function", tool) for tool in tools if isinstance(tool, Mapping)]
    return {
        function["name"]: _mapping(function.get("parameters"))
        for function in functions
        if isinstance(function, Mapping) and isinstance(function.get("name"), str)
    }


def typed_value(text: str, parameter: str, schema: Schema) -> Any:
    """A parameter's value as its schema types it, or the text if it is none of these types.

    Where a string is allowed too, a number has to be written as JSON writes it: 12 is a number, 1.10 and 02139 are not.
    """
    declared = _types(_mapping(schema.get("properties")).get(parameter), schema, set()) & _NAMES
    types = declared or _UNDECLARED
    is_text = "string" in types
    allowed = types if is_text else types | {"null"}
    for value in _readings(text.strip()) if types != {"string"} else ():
        encoded = encode_json(value)
        exact = encoded == text or not isinstance(value, int | float) or isinstance(value, bool)
        if encoded is not None and _types_of(value) & allowed and (exact or not is_text):
            return value
    return text


def _readings(text: str) -> Iterator[Any]:
    """What a text can mean: a constant of JSON or Python, JSON, or a Python list or dictionary. Never a string."""
    if text in _CONSTANTS:
        yield _CONSTANTS[text]
    decoded = decode_json(text)
    if decoded and decoded[1] == len(text):
        yield decoded[0]
    if text.startswith(("{", "[")):
        try:
            yield ast.literal_eval(text)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return


def _types_of(value: Any) -> set[str]:
    """The types of JSON schemas that a value has; none for a string."""
    if isinstance(value, bool):
        return {"boolean"}
    if isinstance(value, int | float):
        return {"integer", "number"} if isinstance(value, int) or value.is_integer() else {"number"}
    return {"null"} if value is None else {"object"} if isinstance(value, dict) else {"array"}


def _types(schema: Any, root: Schema, seen: set[str]) -> set[str]:
    """The names of a schema's types, of all its alternatives; `seen` are the references that were followed."""
    schema = _mapping(schema)
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference not in seen:
        seen.add(reference)
        return _types(_resolve(reference, root), root, seen)
    named = schema.get("type")
    names = [named] if isinstance(named, str) else named if isinstance(named, list) else []
    types = {_ALIASES.get(name, name) for name in names if isinstance(name, str)}
    for key in ("anyOf", "oneOf", "allOf"):
        options = schema.get(key)
        for option in options if isinstance(options, list) else ():
            types |= _types(option, root, seen)
    values = schema.get("enum")
    if not types and isinstance(values, list):
        return set().union(*({"string"} if isinstance(value, str) else _types_of(value) for value in values))
    return types


def _resolve(reference: str, root: Schema) -> Any:
    """What `#/$defs/name` refers to."""
    value: Any = root
    for part in reference.removeprefix("#/").split("/"):
        value = _mapping(value).get(part)
    return value


def _mapping(value: Any) -> Schema:
    return value if isinstance(value, Mapping) else {}
