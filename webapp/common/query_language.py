"""The grammar that the filter of the runs table and the query of transcripts share, and its completion: `kind = eval and reward > 0`.

A language subclasses `Compiler` with its fields, and calls `condition_read`. All user input reaches the database as bound parameters.
"""

import json
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from math import ceil, floor
from typing import Any

from django.db.models import BooleanField, F, Func, Q, Value
from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, v_args
from lark.exceptions import VisitError

from training_core.errors import ConfigError

GRAMMAR = r"""
?start: either
?either: both ("or"i both)*
?both: negation ("and"i negation)*
?negation: "not"i negation -> negated
    | "(" either ")"
    | (WORD | QUOTED) OPERATOR value -> comparison
    | (WORD | QUOTED) "in"i "[" value ("," value)* "]" -> membership
    | (WORD | QUOTED | NUMBER) -> words
?value: QUOTED -> quoted | NUMBER -> number | WORD -> word
OPERATOR: "!=" | "<=" | ">=" | "=" | "<" | ">" | "~"
NUMBER.2: /-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?(?![\w.\/:-])/
QUOTED: /"[^"\n]*"|'[^'\n]*'/
WORD.1: /(?!(and|or|not|in)\b(?![.\/-]))[\w.\/:@-]+/i
%ignore /\s+/
"""
LONGEST = 2000
DEEPEST = 60
"""Maximum number of comparisons in one text."""
LOOKUPS = {"=": "", "<": "__lt", "<=": "__lte", ">": "__gt", ">=": "__gte", "~": "__icontains"}


class FilterError(ConfigError):
    """The text is invalid; `column` counts from 1. `parameter`: the parameter that contains the text."""

    def __init__(self, reason: str, column: int = 1, parameter: str = "filter") -> None:
        self.reason = reason
        self.column = column
        super().__init__({parameter: f"{reason} (column {column})"})


@v_args(inline=True)
class Compiler(Transformer[Token, Any]):
    """Transforms the parse tree to a condition. A subclass implements `words` and `compare`."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    @abstractmethod
    def words(self, token: Token) -> Any:
        """Return the condition for a word without an operator."""

    @abstractmethod
    def compare(self, field: Token, operator: str, value: Any) -> Any:
        """Return the condition for one comparison; operator: =, <, <=, >, >= or ~. Raises FilterError."""

    def joined(self, parts: Sequence[Any], connector: str) -> Any:
        """Join conditions by Q.AND or Q.OR."""
        return Q(*parts, _connector=connector)

    def negated(self, part: Any) -> Any:
        return ~part

    def quoted(self, token: Token) -> str:
        return unquoted(token)

    def number(self, token: Token) -> float | int:
        text = str(token)
        return int(text) if text.lstrip("-").isdigit() and len(text) < 16 else float(text)

    def word(self, token: Token) -> str | bool:
        return {"true": True, "false": False}.get(str(token).lower(), str(token))

    def either(self, *parts: Any) -> Any:
        return self.joined(parts, Q.OR)

    def both(self, *parts: Any) -> Any:
        return self.joined(parts, Q.AND)

    def membership(self, field: Token, *values: Any) -> Any:
        return self.joined([self._counted(field, "=", value) for value in values], Q.OR)

    def comparison(self, field: Token, operator: Token, value: Any) -> Any:
        if operator == "!=":
            return self.negated(self._counted(field, "=", value))
        return self._counted(field, str(operator), value)

    def _counted(self, field: Token, operator: str, value: Any) -> Any:
        self._count += 1
        if self._count > DEEPEST:
            raise FilterError(f"a filter has at most {DEEPEST} comparisons", column_of(field))
        return self.compare(field, operator, value)


def condition_read(text: str, compiler: Compiler, parameter: str = "filter") -> Any:
    """Return the condition of a text that is not empty. Raises FilterError with `parameter`."""
    try:
        return _condition(text, compiler)
    except FilterError as error:
        raise FilterError(error.reason, error.column, parameter) from error


def _condition(text: str, compiler: Compiler) -> Any:
    if len(text) > LONGEST or "\0" in text:
        raise FilterError(f"a filter has at most {LONGEST} characters, without NUL")
    try:
        return compiler.transform(_parser().parse(text))
    except UnexpectedInput as error:
        raise _unexpected(error, text) from error
    except VisitError as error:
        raise error.orig_exc from error
    except RecursionError as error:
        raise FilterError("the filter is nested too deeply") from error


@lru_cache(maxsize=1)
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", maybe_placeholders=False)


def _unexpected(error: UnexpectedInput, text: str) -> FilterError:
    if isinstance(error, UnexpectedEOF) or getattr(getattr(error, "token", None), "type", "") == "$END":
        return FilterError(
            "the filter is incomplete: a value, a field or a bracket is missing", len(text) + 1
        )
    what = text[error.pos_in_stream or 0 :][:12] if isinstance(error, UnexpectedCharacters) else ""
    token = getattr(error, "token", what)
    return FilterError(
        f"{str(token)!r} is unexpected here; use field = value, joined by and, or, not", max(error.column, 1)
    )


def column_of(field: Token) -> int:
    """Return the column of a field in the text, from 1."""
    return field.column or 1


def unquoted(token: Token) -> str:
    """Return a token's text without quotes."""
    return str(token)[1:-1] if token.type == "QUOTED" else str(token)


def number_fits(field: Token, column: str, operator: str, value: Any) -> Q:
    """Return the condition on an integer column. Raises FilterError."""
    number_check(field, operator, value)
    if abs(value) > 2**63 - 1:
        raise FilterError(f"{field} cannot be that large", column_of(field))
    if value != int(value) and operator == "=":
        return Q(pk__in=[])
    # Django truncates fractions for integer columns.
    whole = floor(value) if operator in (">", "<=") else ceil(value)
    return Q(**{f"{column}{LOOKUPS[operator]}": whole})


def is_number(value: Any) -> bool:
    """Whether a value is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def number_check(field: Token, operator: str, value: Any) -> None:
    """Raise FilterError unless a number is compared."""
    if not is_number(value) or operator == "~":
        raise FilterError(f"compare {field} with a number", column_of(field))


def flag_check(field: Token, operator: str, value: Any) -> None:
    """Raise FilterError unless true or false is compared."""
    if operator != "=" or not isinstance(value, bool):
        raise FilterError(f"compare {field} with true or false", column_of(field))


def text_check(field: Token, operator: str) -> None:
    """Raise FilterError for an operator that texts do not have."""
    if operator not in ("=", "~"):
        raise FilterError(f"{field} is text: use =, !=, ~ or in", column_of(field))


MOST = 12
_VALUE = re.compile(
    r"([\w.\/:@-]+)\s*(?:!=|<=|>=|=|<|>|~|in\s*\[(?:[^\]]*,)?)\s*([\w.\/:@\"'-]*)$", re.IGNORECASE
)
_WORD = re.compile(r"[\w.\/:@-]*$")


def complete(
    text: str, fields: Callable[[], Iterable[tuple[str, str]]], values: Callable[[str], Iterable[str]]
) -> dict[str, Any]:
    """Return {"start": start of the current word, "options": [{"text", "note"}]} for the text up to the caret.

    `fields` returns names with notes, `values` the values of a field.
    """
    value = _VALUE.search(text)
    if value:
        field, begun = value[1], value[2].strip("\"'")
        options = [{"text": _quoted(item), "note": ""} for item in values(field)]
        start = value.start(2)
    else:
        word = _WORD.search(text)
        begun, start = (word[0], word.start()) if word else ("", len(text))
        options = [{"text": _quoted(name), "note": note} for name, note in fields()]
    return {"start": start, "options": fitting(options, begun)}


def fitting(options: list[dict[str, str]], begun: str) -> list[dict[str, str]]:
    """Return the options that contain the text, those with it as a prefix first."""
    matching = [item for item in options if begun.lower() in item["text"].lower() and item["text"] != begun]
    matching.sort(key=lambda item: not item["text"].lower().startswith(begun.lower()))
    return matching[:MOST]


def _quoted(text: str) -> str:
    if re.fullmatch(r"[\w.\/:@-]+", text):
        return text
    return f'"{text}"' if '"' not in text else "'" + text.replace("'", "") + "'"


_OPERATORS = {"=": "==", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def json_predicate(path: str, operator: str, value: str | float | bool) -> str:
    """Return the predicate whether a value at the path satisfies =, <, <=, >, >=, or ~ for a case-insensitive substring.

    It is true or false for every document, never unknown. A value of another type never matches. `value` is finite.
    """
    if operator == "~":
        # "q": literal text, not a regular expression
        return f'exists({path} ? (@ like_regex {json.dumps(str(value))} flag "iq"))'
    return f"exists({path} ? (@ {_OPERATORS[operator]} {json.dumps(value)}))"


def json_fits(column: str, predicate: str) -> Any:
    """Return the expression that the predicate is true for a JSON column; the predicate is a bound parameter."""
    return Func(
        F(column),
        Value(predicate),
        template="(%(expressions)s::jsonpath)",
        arg_joiner=" @@ ",
        output_field=BooleanField(),
    )
