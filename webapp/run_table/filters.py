"""The filter language of the runs table: `algorithm.type = at_grpo and eval/success > 0.8`.

A word with a slash is a metric (its last value, or another measure: `eval/success:max`), one with a dot a config
field, a plain one a fact of the run; a word without an operator is searched in names, ids, presets and tags.
All user input reaches the database as bound parameters.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import isfinite
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone
from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, v_args
from lark.exceptions import VisitError

from training_core.errors import ConfigError
from webapp.metrics.measures import MEASURES, metric_read
from webapp.metrics.models import Series
from webapp.run_table.config_tests import ConfigTest, config_fits, config_joined, config_not, config_test
from webapp.runs.models import Run, RunNote, RunState

GRAMMAR = r"""
?start: either
?either: both ("or"i both)*
?both: negation ("and"i negation)*
?negation: "not"i negation -> negated
    | "(" either ")"
    | WORD OPERATOR value -> comparison
    | WORD "in"i "[" value ("," value)* "]" -> membership
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
"""Maximum number of comparisons in one filter."""
_COLUMNS: dict[str, str] = {
    "name": "name",
    "id": "id",
    "state": "state",
    "preset": "preset",
    "owner": "owner__username",
    "project": "project__slug",
    "source": "source",
    "family": "family",
    "sweep": "sweep__name",
    "parent": "parent_id",
}
_NUMBERS = {"iteration": "iteration", "iterations": "iterations", "priority": "priority"}
_MOMENTS = {"created": "created_at", "started": "started_at", "ended": "ended_at"}
_FLAGS = {"archived": "archived"}
FIELDS: dict[str, str] = {
    **dict.fromkeys(_COLUMNS, "text"),
    **dict.fromkeys(_NUMBERS, "number"),
    **dict.fromkeys(_MOMENTS, "time: 2026-01-31, or -7d, -12h for newer than that"),
    **dict.fromkeys(_FLAGS, "true or false"),
    "tag": "text",
    "note": "text; any of its notes",
}
"""Facts of a run, and the type of their values."""
_LOOKUPS = {"=": "", "<": "__lt", "<=": "__lte", ">": "__gt", ">=": "__gte", "~": "__icontains"}
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class FilterError(ConfigError):
    """The text is not a valid filter; `column` counts from 1."""

    def __init__(self, message: str, column: int = 1) -> None:
        self.column = column
        super().__init__({"filter": f"{message} (column {column})"})


def runs_filter(runs: QuerySet[Run], text: str) -> QuerySet[Run]:
    """Return the runs that match the filter. Raises FilterError."""
    if not text.strip():
        return runs
    if len(text) > LONGEST or "\0" in text:
        raise FilterError(f"a filter has at most {LONGEST} characters, without NUL")
    try:
        tree = _parser().parse(text)
        condition = _Compiler().transform(tree)
    except UnexpectedInput as error:
        raise _unexpected(error, text) from error
    except VisitError as error:
        raise error.orig_exc from error
    except RecursionError as error:
        raise FilterError("the filter is nested too deeply") from error
    return runs.filter(config_fits(condition) if isinstance(condition, ConfigTest) else condition)


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
        f"{str(token)!r} is unexpected here; use field = value, joined by and, or, not",
        max(error.column, 1),
    )


@v_args(inline=True)
class _Compiler(Transformer[Token, "Condition"]):
    """Transforms the parse tree to a condition."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def quoted(self, token: Token) -> str:
        return str(token)[1:-1]

    def number(self, token: Token) -> float | int:
        text = str(token)
        return int(text) if text.lstrip("-").isdigit() and len(text) < 16 else float(text)

    def word(self, token: Token) -> str | bool:
        return {"true": True, "false": False}.get(str(token).lower(), str(token))

    def either(self, *parts: "Condition") -> "Condition":
        return _joined(parts, Q.OR)

    def both(self, *parts: "Condition") -> "Condition":
        return _joined(parts, Q.AND)

    def negated(self, part: "Condition") -> "Condition":
        return config_not(part) if isinstance(part, ConfigTest) else ~part

    def words(self, token: Token) -> Q:
        text = str(token)[1:-1] if token.type == "QUOTED" else str(token)
        return (
            Q(name__icontains=text)
            | Q(pk__icontains=text)
            | Q(preset__icontains=text)
            | Q(tags__contains=[text])
        )

    def membership(self, field: Token, *values: Any) -> "Condition":
        return _joined([self._compare(field, "=", value) for value in values], Q.OR)

    def comparison(self, field: Token, operator: Token, value: Any) -> "Condition":
        if operator == "!=":
            return self.negated(self._compare(field, "=", value))
        return self._compare(field, str(operator), value)

    def _compare(self, field: Token, operator: str, value: Any) -> "Condition":
        self._count += 1
        if self._count > DEEPEST:
            raise FilterError(f"a filter has at most {DEEPEST} comparisons", field.column or 1)
        name = str(field)
        if name in FIELDS:
            return _of_run(field, operator, value)
        if "/" in name:
            return _of_metric(field, operator, value)
        if "." in name:
            return _of_config(field, operator, value)
        known = ", ".join(FIELDS)
        raise FilterError(
            f"{name!r} is not a field: use {known}, a config field (algorithm.type) or a metric (eval/success)",
            field.column or 1,
        )


Condition = Q | ConfigTest


def _joined(parts: Sequence[Condition], connector: str) -> Condition:
    """Join all parts by and, or by or; conditions on the config become one, so that it is read once."""
    tests = [part for part in parts if isinstance(part, ConfigTest)]
    rest = [part for part in parts if isinstance(part, Q)]
    if tests:
        test = config_joined(tests, "||" if connector == Q.OR else "&&")
        if not rest:
            return test
        # Last: the database evaluates cheap conditions first.
        rest.append(config_fits(test))
    return Q(*rest, _connector=connector)


def _of_config(field: Token, operator: str, value: Any) -> ConfigTest:
    """Return the condition on a config field; runs without it do not match."""
    text = isinstance(value, str)
    if operator not in ("=", "~") and (text or isinstance(value, bool)):
        how = "= and ~" if text else "= or !="
        raise FilterError(f"compare {field} with a number, or by {how}", field.column or 1)
    if isinstance(value, float) and not isfinite(value):
        raise FilterError(f"{field} cannot be that large", field.column or 1)
    return config_test(str(field).split("."), operator, value)


def _of_metric(field: Token, operator: str, value: Any) -> Q:
    """Return the condition on a measure of a metric (webapp.metrics.measures); runs without it do not match."""
    if isinstance(value, bool) or not isinstance(value, int | float) or operator == "~":
        raise FilterError(f"{field} is a metric: compare it with a number", field.column or 1)
    key, measure = metric_read(str(field))
    lookup = {"key": key, f"{MEASURES[measure]}{_LOOKUPS[operator]}": float(value)}
    return Q(Exists(Series.objects.filter(run=OuterRef("pk"), **lookup)))


def _of_run(field: Token, operator: str, value: Any) -> Q:
    name = str(field)
    for columns, compare in _KINDS:
        if name in columns:
            return compare(field, columns[name], operator, value)
    return _tag(field, operator, value) if name == "tag" else _note(field, operator, value)


def _text(field: Token, column: str, operator: str, value: Any) -> Q:
    if operator not in ("=", "~"):
        raise FilterError(f"{field} is text: use =, !=, ~ or in", field.column or 1)
    if str(field) == "state" and operator == "=" and value not in RunState.values:
        raise FilterError(f"a state is one of {', '.join(RunState.values)}", field.column or 1)
    return Q(**{f"{column}{_LOOKUPS[operator]}": str(value)})


def _number(field: Token, column: str, operator: str, value: Any) -> Q:
    if isinstance(value, bool) or not isinstance(value, int | float) or operator == "~":
        raise FilterError(f"compare {field} with a number", field.column or 1)
    if abs(value) > 2**31 - 1:
        raise FilterError(f"{field} cannot be that large", field.column or 1)
    return Q(**{f"{column}{_LOOKUPS[operator]}": value})


def _flag(field: Token, column: str, operator: str, value: Any) -> Q:
    if operator != "=" or not isinstance(value, bool):
        raise FilterError(f"compare {field} with true or false", field.column or 1)
    return Q(**{column: value})


def _moment(field: Token, column: str, operator: str, value: Any) -> Q:
    if operator in ("=", "~"):
        raise FilterError(f"compare {field} with <, <=, > or >=", field.column or 1)
    return Q(**{f"{column}{_LOOKUPS[operator]}": _when(field, str(value))})


def _when(field: Token, text: str) -> datetime:
    try:
        if text.startswith("-") and text[-1:] in _UNITS:
            return timezone.now() - timedelta(**{_UNITS[text[-1]]: float(text[1:-1])})
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise FilterError(f"{text!r} is not a time: use 2026-01-31, or -7d", field.column or 1) from None


def _tag(field: Token, operator: str, value: Any) -> Q:
    if operator == "~":
        return Q(tags__icontains=str(value))
    if operator != "=":
        raise FilterError("compare a tag with =, !=, ~ or in", field.column or 1)
    return Q(tags__contains=[str(value)])


def _note(field: Token, operator: str, value: Any) -> Q:
    if operator not in ("=", "~"):
        raise FilterError("compare a note with =, !=, ~ or in", field.column or 1)
    lookup = {f"text{_LOOKUPS[operator]}": str(value)}
    return Q(Exists(RunNote.objects.filter(run=OuterRef("pk"), **lookup)))


_KINDS: tuple[tuple[dict[str, str], Callable[[Token, str, str, Any], Q]], ...] = (
    (_COLUMNS, _text),
    (_NUMBERS, _number),
    (_MOMENTS, _moment),
    (_FLAGS, _flag),
)
