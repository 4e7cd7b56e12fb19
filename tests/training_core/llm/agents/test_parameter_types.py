"""The values of <parameter=key> tags, by the tool's schema."""

from typing import Any

import pytest

from training_core.llm.agents.tool_calls import offered_functions, typed_value


def read(text: str, schema: Any) -> Any:
    tools = [
        {
            "type": "function",
            "function": {"name": "f", "parameters": {"properties": {"x": schema}, "$defs": DEFS}},
        }
    ]
    return typed_value(text, "x", offered_functions(tools)["f"])


DEFS = {"Mode": {"enum": ["1", "2"]}, "Count": {"type": "integer"}, "Loop": {"$ref": "#/$defs/Loop"}}
OPTIONAL_TEXT = {"anyOf": [{"type": "string"}, {"type": "null"}]}


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        *(({"type": "string"}, text, text)
          for text in ("02139", "12345", "1.10", '{"a": 1}', "true", "null", "NaN", '"quoted"', " 1 ", "")),
        ({"type": "boolean"}, "True", True),
        ({"type": "boolean"}, "false", False),
        ({"type": "boolean"}, "1", "1"),
        ({"type": "integer"}, "12", 12),
        ({"type": "integer"}, " 12\n", 12),
        ({"type": "integer"}, "1.5", "1.5"),
        ({"type": "integer"}, "None", None),
        ({"type": "number"}, "1.10", 1.1),
        ({"type": "number"}, "1e400", "1e400"),
        ({"type": "number"}, "NaN", "NaN"),
        ({"type": "float"}, "0.5", 0.5),
        ({"type": "object"}, '{"a": [1, "b"]}', {"a": [1, "b"]}),
        ({"type": "object"}, "{'a': True}", {"a": True}),
        ({"type": "object"}, "{'a': {1, 2}}", "{'a': {1, 2}}"),
        ({"type": "object"}, "[1]", "[1]"),
        ({"type": "array"}, "[1, 2]", [1, 2]),
        ({"type": "array"}, "[" + "-" * 50_000 + "1]", "[" + "-" * 50_000 + "1]"),
        ({"type": "array"}, '["\\ud83d"]', '["\\ud83d"]'),
        ({"type": ["string", "null"]}, "null", None),
        ({"type": ["string", "integer"]}, "12", 12),
        ({"type": ["string", "number"]}, "1.10", "1.10"),
        (OPTIONAL_TEXT, "None", None),
        (OPTIONAL_TEXT, "12", "12"),
        ({"enum": ["1", "2"]}, "1", "1"),
        ({"enum": [1, 2]}, "1", 1),
        ({"enum": [float("inf"), "so"]}, "so", "so"),
        ({"type": "integer"}, "1" + "0" * 400, int("1" + "0" * 400)),
        ({"$ref": "#/$defs/Mode"}, "2", "2"),
        ({"$ref": "#/$defs/Count"}, "2", 2),
        ({"$ref": "#/$defs/Loop"}, "2", 2),
        *((undeclared, text, value)
          for undeclared in ({}, None, {"type": "any"}, {"type": 7, "anyOf": 3})
          for text, value in (("12", 12), ("True", True), ("null", None), ("1.5", 1.5), ("02139", "02139"),
                              ("1.10", "1.10"), ('{"a": 1}', '{"a": 1}'), ("[1]", "[1]"), ("so", "so"))),
    ],
)  # fmt: skip
def test_a_value_has_the_declared_type(schema: Any, text: str, value: Any) -> None:
    found = read(text, schema)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    "tool", [None, {}, {"function": 3}, {"function": {"name": 3}}, {"name": "f", "parameters": [3]}]
)
def test_tools_without_a_schema_type_nothing(tool: Any) -> None:
    assert typed_value("12", "x", offered_functions([tool]).get("f", {})) == 12
