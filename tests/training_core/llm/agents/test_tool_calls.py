"""Which calls an answer contains, how a schema types their parameters, and which text is left."""

import json
import random
from typing import Any

import pytest

from training_core.llm.agents.messages import parse_answer
from training_core.llm.agents.tool_calls import LEVELS, extract_calls, offered_functions, typed_value


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


def marked(body: str) -> str:
    return f"<tool_call>\n{body}\n</tool_call>"


def written(name: str, **parameters: str) -> str:
    tags = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters.items())
    return f"<function={name}>\n{tags}</function>"


def parsed(text: str, tools: Any = True) -> tuple[str | None, list[tuple[str, Any]]]:
    message = parse_answer(text, tools=tools)
    functions = [call["function"] for call in message.get("tool_calls", [])]
    return message["content"], [
        (function["name"], json.loads(function["arguments"])) for function in functions
    ]


A, B = '{"name": "a", "arguments": {"x": 1}}', '{"name": "b", "arguments": {}}'
CALL_A, CALL_B = ("a", {"x": 1}), ("b", {})
EXAMPLE = written("q", z="1")


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (marked(A) + "\n" + marked(B), [CALL_A, CALL_B]),
        (marked(f"[{A}, {B}]"), [CALL_A, CALL_B]),
        (marked(f"{A}\n{B}"), [CALL_A, CALL_B]),
        (marked(f"```json\n{A}\n```"), [CALL_A]),
        (f"<tool_call>\n{A}", [CALL_A]),
        (f"<tool_call>{A}<tool_call>{B}</tool_call>", [CALL_A, CALL_B]),
        (marked('{"name": "a", "parameters": {"x": 1}}'), [CALL_A]),
        (marked('{"name": "a", "arguments": "{\\"x\\": 1}"}'), [CALL_A]),
        (marked('{"name": "b", "arguments": ""}') + marked('{"name": "b"}'), [CALL_B, CALL_B]),
        (marked('{"type": "function", "function": ' + A + "}"), [CALL_A]),
        (marked('{"name": "a", "name": "b", "arguments": {}}'), [CALL_B]),
        (marked('{"name": "w", "arguments": {"t": "a </tool_call> b\nc", "città": "😀"}}'),
         [("w", {"t": "a </tool_call> b\nc", "città": "😀"})]),
        (marked('{"name": "w", "arguments": {"t": "<think> </think>"}}'), [("w", {"t": "<think> </think>"})]),
        (f"[TOOL_CALLS][{A}, {B}]", [CALL_A, CALL_B]),
        ('[TOOL_CALLS]a[CALL_ID]c1[ARGS]{"x": 1}[TOOL_CALLS]b{}', [CALL_A, CALL_B]),
        (f"<|python_tag|>{A}; {B}", [CALL_A, CALL_B]),
        (A, [CALL_A]),
        (f"```json\n[{A}]\n```", [CALL_A]),
        (marked(written("a", x="1")), [CALL_A]),
        (written("a", x="1") + "\n" + written("b"), [CALL_A, CALL_B]),
        (marked(written("a", x="1") + "\n" + written("b")), [CALL_A, CALL_B]),
        (marked("<function=a>\n<parameter=x>\n1\n</parameter>"), [CALL_A]),
        ('<function=a>{"x": 1}</function>', [CALL_A]),
        (written("w", t=f"see {EXAMPLE} or </parameter> and </tool_call>", u=""),
         [("w", {"t": f"see {EXAMPLE} or </parameter> and </tool_call>", "u": ""})]),
    ],
)  # fmt: skip
def test_calls_in_all_notations(text: str, calls: list[Any]) -> None:
    assert parsed(text) == (None, calls)
    assert parsed(f"<think>{text}</think>\n{text}") == (f"<think>{text}</think>", calls)


@pytest.mark.parametrize(
    "text",
    [
        marked("no JSON"),
        marked(A + "}"),
        marked(A[:-1]),
        marked(A + " and so on"),
        marked("{'name': 'a', 'arguments': {}}"),
        marked(f"[{A}, 1]"),
        marked("[]"),
        marked('{"name": "", "arguments": {}}'),
        marked('{"name": 1, "arguments": {}}'),
        marked('{"name": "a", "arguments": [1]}'),
        marked('{"name": "a", "arguments": "{"}'),
        marked('{"name": "a", "arguments": {"x": NaN}}'),
        marked('{"name": "a", "arguments": {"x": -Infinity}}'),
        marked('{"name": "a", "arguments": {"x": 1e400}}'),
        marked('{"name": "a", "arguments": {"x": "\\ud83d"}}'),
        marked('{"name": "\\ud83d", "arguments": {}}'),
        marked('{"name": "a", "arguments": {"x": ' + "[" * LEVELS + "]" * LEVELS + "}}"),
        marked('{"name": "a", "arguments": {"x": ' + "[" * 4000 + "]" * 4000 + "}}"),
        "[TOOL_CALLS] none",
        "<|python_tag|>print(1)",
        f"the call {A}",
        "use <function=a>",
        "<tool_call><function=a>\n<parameter=x>\n1\n</parameter>\n",
        "<function=a>\n<parameter=x>\n1\n<parameter=y>\n2\n</parameter>\n</function>",
        "<function=a>\nso\n</function>",
        written("a", x="1").replace("</function>", "<parameter=x>2</parameter></function>"),
        f"<think>draft {marked(A)}",
        f"[THINK]draft {marked(A)}[/THINK]done",
        f"draft {marked(A)} of a thought that the prompt began</think>done",
    ],
)
def test_what_is_no_call_stays_text(text: str) -> None:
    assert parsed(text) == (text, [])
    assert parsed(f"so {text}", tools=False) == (f"so {text}", [])


def test_the_text_around_calls_is_kept() -> None:
    assert parsed(f"<think>hm</think>First {marked(A)} then {marked('{')} and {marked(B)}.") == (
        f"<think>hm</think>First  then {marked('{')} and .",
        [CALL_A, CALL_B],
    )
    assert parsed(f"{marked(A)}<think>cut off") == ("<think>cut off", [CALL_A])


def test_json_without_a_mark_is_a_call_of_an_offered_tool_only() -> None:
    tools = [{"type": "function", "function": {"name": "a"}}]
    assert parsed(A, tools) == (None, [CALL_A])
    assert parsed(B, tools) == (B, [])


@pytest.mark.parametrize(
    "text",
    [
        marked(B),
        written("b"),
        f"[TOOL_CALLS][{A}, {B}]",
        marked(
            '{"name": "b", "arguments": {"x": "' + marked(A).replace('"', '\\"').replace("\n", "\\n") + '"}}'
        ),
    ],
)
def test_a_tool_that_is_not_offered_is_not_called(text: str) -> None:
    """Nor is what its arguments quote."""
    for tools in ([{"type": "function", "function": {"name": "a"}}], [{"type": "web_search"}]):
        assert parsed(text, tools) == (text, [])
    both = [{"type": "function", "function": {"name": name}} for name in "ab"]
    assert parsed(text, both)[1]


def test_every_call_has_its_own_id() -> None:
    calls = parse_answer(marked(A) + marked(A), tools=True)["tool_calls"]
    assert len({call["id"] for call in calls}) == 2
    assert [call["type"] for call in calls] == ["function"] * 2


PIECES = [
    *("<tool_call>", "</tool_call>", "<function=a>", "</function>", "<parameter=x>", "</parameter>", "<parameter=y>"),
    *("[TOOL_CALLS]", "a[ARGS]", "<|python_tag|>", "<think>", "</think>", "[THINK]", "```json\n", "\n", "{", "}"),
    *("[", "]", ",", '"', '"\\ud83d"', "NaN", "1e999", "\x00", "\ufffd", A, B, marked(A), '[{"name": "a"}]'),
    *(written("a", x="[1]"), "word", "word", "word", "word"),
]  # fmt: skip


def test_no_text_makes_the_parser_fail_or_lose_text() -> None:
    """Answers of random pieces: each word is left or is in a call, and calls are strict JSON in UTF-8."""
    chance = random.Random(7)
    tools = [{"function": {"name": "a", "parameters": {"properties": {"x": {"type": ["array", "object"]}}}}}]
    seen = 0
    for _ in range(6000):
        chosen = chance.choices(PIECES, k=chance.randint(1, 20))
        words = [f"w{index}," if piece == "word" else "" for index, piece in enumerate(chosen)]
        text = "".join(word or piece for word, piece in zip(words, chosen, strict=True))
        rest, calls = extract_calls(text, tools)
        seen += len(calls)
        functions = [call["function"] for call in calls]
        kept = [rest, *(function["name"] + function["arguments"] for function in functions)]
        assert all(any(word in part for part in kept) for word in words), text
        assert calls or rest == text
        for function in functions:
            assert isinstance(json.loads(function["arguments"], parse_constant=pytest.fail), dict), text
            assert function["arguments"].encode() and function["name"].encode()
    assert seen > 2000
