"""Tool calls in a policy's answer, in the notations that models write.

- Hermes, Qwen2.5, Qwen3: `{"name": …, "arguments": {…}}` in `<tool_call>` marks.
- Qwen3-Coder, Qwen3.5: `<function=name><parameter=key>value</parameter></function>`, with or without these marks.
- Mistral: JSON after `[TOOL_CALLS]`, or `name[ARGS]{…}`.
- Llama 3: JSON after `<|python_tag|>`, JSON alone, or `<function=name>{…}</function>`.

The values of `<parameter=key>` tags have the types of the tool's JSON schema. JSON is read as models write
it, with raw line breaks in strings, and passed on as every reader accepts it. Nothing here raises, whatever the text.
"""

import ast
import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from training_core.llm.answers import THOUGHT_BEGINS, THOUGHT_ENDS

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


LEVELS = 64
"""Objects and lists are nested at most this deep, because what reads them again (a chat template) recurses."""


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(strict=False, parse_constant=_refuse)


def decode_json(text: str, at: int = 0) -> tuple[Any, int] | None:
    """The value at a place, and the place after it; None if there is none. Strings may contain raw line breaks; NaN
    and Infinity are refused.
    """
    try:
        return _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None


def encode_json(value: Any) -> str | None:
    """A value as JSON; None if JSON in UTF-8 cannot represent it (an infinite number, half of a surrogate pair), or if
    it is nested deeper than LEVELS.
    """
    if _is_deeper(value, LEVELS):
        return None
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError):
        return None
    return text


def _is_deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list | tuple):
        return False
    items = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in items)


_MARK = r"<tool_call>|\[TOOL_CALLS\]|<\|python_tag\|>"
_NEXT = re.compile(
    f"(?P<mark>{_MARK})|(?P<function><function=)"
    f"|(?P<thought>{THOUGHT_BEGINS.pattern})|(?P<answer>{THOUGHT_ENDS.pattern})"
)
_BETWEEN = re.compile(r"(?:[\s;,]|```\w*)*")
"""What may stand around calls: spaces, separators, and the lines of a code fence."""
_CLOSE = re.compile(rf"</tool_call>|(?={_MARK})|\Z")
_FUNCTION = re.compile(r"<function=([^<>\s]+)>\s*")
_FUNCTION_END = re.compile(r"\s*(?:</function>|(?P<missing>(?=</tool_call>|<function=)))")
_PARAMETER = re.compile(r"\s*<parameter=([^<>\s]+)>\n?")
_PARAMETER_MARK = re.compile(
    r"<parameter=[^<>\s]+>\n?|(?P<end>\n?</parameter>)(?P<last>(?=\s*(?:<parameter=|</function>|<function=|</tool_call>)))?"
)
_NAMED = re.compile(r"([\w.-]+)(?:\[CALL_ID\][\w-]+)?(?:\[ARGS\])?\s*(?=\{)")


class _Call(NamedTuple):
    name: str
    arguments: str
    """As JSON."""


class _Span(NamedTuple):
    """Calls, and where their text begins and ends."""

    start: int
    end: int
    calls: list[_Call]


_Read = tuple[list[_Call], int] | None
"""Calls and the place after them; None if there is no call at a place."""


def extract_calls(text: str, tools: Sequence[Mapping[str, Any]] | bool) -> tuple[str, list[dict[str, Any]]]:
    """An answer's text without its calls, and the calls in OpenAI's form.

    `tools` are the offered tools, whose schemas type the parameters; True if they are not known. A draft in a thought
    is not a call, nor is one of a tool that was not offered. What cannot be parsed, or cannot be represented as JSON in UTF-8, stays text.
    """
    spans = _Parser(text, tools).spans()
    starts, ends = [span.start for span in spans], [span.end for span in spans]
    rest = [text[end:start] for end, start in zip([0, *ends], [*starts, len(text)], strict=True)]
    return "".join(rest), [_openai_call(call) for span in spans for call in span.calls]


def _openai_call(call: _Call) -> dict[str, Any]:
    return {"id": f"call_{secrets.token_hex(12)}", "type": "function", "function": call._asdict()}


class _Parser:
    """Reads an answer from left to right."""

    def __init__(self, text: str, tools: Sequence[Mapping[str, Any]] | bool) -> None:
        self.text = text
        self.functions = {} if isinstance(tools, bool) else offered_functions(tools)
        self._known = not isinstance(tools, bool)

    def spans(self) -> list[_Span]:
        """All calls of offered tools outside of thoughts, in order."""
        spans: list[_Span] = []
        at, alone = 0, self._alone(0)
        while not alone and (mark := _NEXT.search(self.text, at)):
            at = mark.end()
            if mark.lastgroup == "thought":
                end = THOUGHT_ENDS.search(self.text, at)
                at = end.end() if end else len(self.text)
                alone = self._alone(at)
            elif mark.lastgroup == "answer":  # the prompt has begun the thought that ends here
                spans, alone = [], self._alone(at)
            elif span := self._marked(mark):
                spans += [span] if self._offers(span.calls) else []
                at = span.end
        return [*spans, alone] if alone else spans

    def _offers(self, calls: Sequence[_Call]) -> bool:
        return not self._known or all(call.name in self.functions for call in calls)

    def _marked(self, mark: re.Match[str]) -> _Span | None:
        """The calls at a mark. Nothing else may follow until it is closed, another mark begins, or the text ends."""
        if mark.lastgroup == "function":
            read = self._function(mark.start(), closed=True)
            return _Span(mark.start(), read[1], read[0]) if read else None
        calls, after = self._calls(mark.end())
        close = _CLOSE.match(self.text, after)
        return _Span(mark.start(), close.end(), calls) if calls and close else None

    def _alone(self, start: int) -> _Span | None:
        """Calls as JSON without a mark: they are the whole text from a place on. Only the names of offered tools
        distinguish them from JSON that is an answer.
        """
        if not self.text.startswith(("{", "["), self._skip(start)):
            return None
        calls, after = self._calls(start)
        whole = calls and self._offers(calls) and after == len(self.text)
        return _Span(start, after, calls) if whole else None

    def _calls(self, at: int) -> tuple[list[_Call], int]:
        """All calls from a place on, in any notation, and the place after them."""
        calls: list[_Call] = []
        while read := self._function(self._skip(at)) or self._json(self._skip(at)):
            calls += read[0]
            at = read[1]
        return calls, self._skip(at)

    def _skip(self, at: int) -> int:
        between = _BETWEEN.match(self.text, at)
        return between.end() if between else at

    def _function(self, at: int, *, closed: bool = False) -> _Read:
        """`<function=name>`. Unless it must be `closed`, its end mark may be missing before the next mark."""
        opening = _FUNCTION.match(self.text, at)
        if opening is None:
            return None
        decoded = decode_json(self.text, opening.end()) if self.text.startswith("{", opening.end()) else None
        arguments, at = decoded or self._parameters(opening[1], opening.end())
        end = _FUNCTION_END.match(self.text, at)
        if end is None or (closed and end.lastgroup == "missing"):
            return None
        call = _make_call(opening[1], arguments)
        return ([call], end.end()) if call else None

    def _parameters(self, function: str, at: int) -> tuple[dict[str, Any], int]:
        """The values of `<parameter=key>` tags, and the place after them."""
        texts: dict[str, str] = {}
        while (
            (opening := _PARAMETER.match(self.text, at))
            and opening[1] not in texts
            and opening.end() in self._values
        ):
            end, at = self._values[opening.end()]
            texts[opening[1]] = self.text[opening.end() : end]
        schema = self.functions.get(function, {})
        return {name: typed_value(text, name, schema) for name, text in texts.items()}, at

    @cached_property
    def _values(self) -> dict[int, tuple[int, int]]:
        """For each beginning of a parameter's value its end, and the place after its end mark.

        A value may contain marks. It ends at a mark that continues the call, with no parameter open within the value:
        if an end mark is missing, the value does not end with that of another parameter.
        """
        values: dict[int, tuple[int, int]] = {}
        pending: list[tuple[int, int]] = []  # (level, beginning) of values without an end
        level = 0
        for mark in _PARAMETER_MARK.finditer(self.text):
            if mark["end"] is None:
                level += 1
                pending.append((level, mark.end()))
                continue
            while mark["last"] is not None and pending and pending[-1][0] >= level:
                values[pending.pop()[1]] = mark.start(), mark.end()
            level -= 1
        return values

    def _json(self, at: int) -> _Read:
        """A call as JSON, a list of calls, or a name with its arguments as JSON."""
        named = _NAMED.match(self.text, at)
        decoded = decode_json(self.text, named.end() if named else at)
        if decoded is None:
            return None
        value, after = decoded
        if named:
            value = {"name": named[1], "arguments": value}
        calls = [_call_of(item) for item in (value if isinstance(value, list) else [value])]
        complete = [call for call in calls if call]
        return (complete, after) if complete and len(complete) == len(calls) else None


def _call_of(value: Any) -> _Call | None:
    """The call that an object describes: with `arguments`, Llama's `parameters`, or in OpenAI's form."""
    if not isinstance(value, dict):
        return None
    inner = value.get("function")
    value = inner if isinstance(inner, dict) else value
    arguments = value.get("arguments", value.get("parameters"))
    if isinstance(arguments, str):
        text = arguments.strip() or "{}"
        decoded = decode_json(text)
        arguments = decoded[0] if decoded and decoded[1] == len(text) else text
    return _make_call(value.get("name"), {} if arguments is None else arguments)


def _make_call(name: Any, arguments: Any) -> _Call | None:
    """A call; None if a name or an object of arguments is missing, or cannot be represented."""
    if not isinstance(name, str) or not name.strip() or not isinstance(arguments, dict):
        return None
    encoded = encode_json(arguments)
    return _Call(name, encoded) if encoded is not None and encode_json(name) is not None else None
