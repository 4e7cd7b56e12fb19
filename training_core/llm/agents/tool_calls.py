"""Tool calls in a policy's answer, in the notations that models write.

- Hermes, Qwen2.5, Qwen3: `{"name": …, "arguments": {…}}` in `<tool_call>` marks.
- Qwen3-Coder, Qwen3.5: `<function=name><parameter=key>value</parameter></function>`, with or without these marks.
- Mistral: JSON after `[TOOL_CALLS]`, or `name[ARGS]{…}`.
- Llama 3: JSON after `<|python_tag|>`, JSON alone, or `<function=name>{…}</function>`.
"""

import re
import secrets
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from training_core.llm.agents.parameter_types import offered_functions, typed_value
from training_core.llm.agents.strict_json import decode_json, encode_json
from training_core.llm.answers import THOUGHT_BEGINS, THOUGHT_ENDS

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
    is not a call. What cannot be parsed, or cannot be represented as JSON in UTF-8, stays text.
    """
    spans = _Parser(text, () if isinstance(tools, bool) else tools).spans()
    starts, ends = [span.start for span in spans], [span.end for span in spans]
    rest = [text[end:start] for end, start in zip([0, *ends], [*starts, len(text)], strict=True)]
    return "".join(rest), [_openai_call(call) for span in spans for call in span.calls]


def _openai_call(call: _Call) -> dict[str, Any]:
    return {"id": f"call_{secrets.token_hex(12)}", "type": "function", "function": call._asdict()}


class _Parser:
    """Reads an answer from left to right."""

    def __init__(self, text: str, tools: Sequence[Mapping[str, Any]]) -> None:
        self.text = text
        self.functions = offered_functions(tools)

    def spans(self) -> list[_Span]:
        """All calls outside of thoughts, in order."""
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
                spans.append(span)
                at = span.end
        return [*spans, alone] if alone else spans

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
        offered = not self.functions or all(call.name in self.functions for call in calls)
        return _Span(start, after, calls) if calls and offered and after == len(self.text) else None

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
