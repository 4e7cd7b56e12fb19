"""MLflow's filter language, `metrics.loss < 1 and params.model = "tiny"`, and its order_by."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from django.db import models
from django.db.models import F, Q, QuerySet, Value
from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedInput, VisitError

from webapp.common.query_language import DEEPEST
from webapp.metrics.models import Series
from webapp.mlflow.protocol import Call, MlflowError, moment_of

GRAMMAR = r"""
filter: comparison ("and"i comparison)*
order: FIELD [DIRECTION]
?comparison: FIELD OPERATOR (TEXT | NUMBER) -> compared
    | FIELD [NOT] "in"i "(" TEXT ("," TEXT)* ")" -> listed
    | FIELD "is"i [NOT] "null"i -> absent
FIELD: /(\w+\.|`\w+`\.)?("[^"]+"|`[^`]+`|[\w.\/@+-]+)/
OPERATOR: "!=" | "<=" | ">=" | "=" | "<" | ">" | /i?like\b/i
DIRECTION: /(asc|desc)\b/i
NOT: /not\b/i
TEXT: /'[^']*'|"[^"]*"/
NUMBER: /[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?/i
%ignore /\s+/
"""
LONGEST = 20_000
"""Characters of a filter: a list of ids is long."""
STATUS = {
    "FINISHED": ("finished",),
    "FAILED": ("failed",),
    "KILLED": ("stopped", "paused"),
    "SCHEDULED": ("draft", "queued"),
    "RUNNING": ("starting", "running", "stopping"),
}
"""Status of MLflow -> states of Troupe."""
KINDS = {"metric": "metrics", "param": "params", "parameter": "params", "parameters": "params", "tag": "tags"}
ATTRIBUTES = ("attribute", "attributes", "attr", "run")
MOMENTS = ("start_time", "created", "end_time", "creation_time", "last_update_time")
_LOOKUPS = {
    "=": "",
    "<": "__lt",
    "<=": "__lte",
    ">": "__gt",
    ">=": "__gte",
    "like": "__regex",
    "ilike": "__iregex",
}


def _text_of(column: str) -> Callable[[str], Any]:
    """Return the expression of a key's text in a JSON column."""
    text: Any = models.TextField()
    return lambda key: models.Func(
        F(column), Value(key), function="jsonb_extract_path_text", output_field=text
    )


def _last_value(key: str) -> models.Subquery:
    """The last value of a metric; none for NaN, which Postgres sorts above all numbers."""
    series = Series.objects.filter(run=models.OuterRef("pk"), key=key, last_value__lte=float("inf"))
    return models.Subquery(series.values("last_value"))


RUNS: Mapping[str, Any] = {
    "run_id": F("pk"),
    "run_name": F("name"),
    "run name": F("name"),
    "status": models.Case(
        *(models.When(state__in=states, then=Value(word)) for word, states in STATUS.items())
    ),
    "user_id": F("owner__username"),
    "start_time": F("started_at"),
    "created": F("started_at"),
    "end_time": F("ended_at"),
    "params": _text_of("mlflow__params"),
    "tags": _text_of("mlflow__tags"),
    "metrics": _last_value,
}
"""Fields of runs, and functions of the keys of params, tags and metrics."""
EXPERIMENTS: Mapping[str, Any] = {
    "name": F("name"),
    "creation_time": F("created_at"),
    "last_update_time": F("updated_at"),
    "tags": _text_of("tags"),
}


def rows_filter(call: Call, rows: QuerySet[Any], fields: Mapping[str, Any], last: str) -> QuerySet[Any]:
    """Return the rows that match the arguments `filter` and `order_by`; equals are sorted by `last`, then by id.

    Raises MlflowError.
    """
    query = _Query(fields)
    text = call.text("filter", "")
    condition = query.read(text, "filter") if text.strip() else Q()
    orders = [query.read(str(order), "order") for order in call.items("order_by")]
    selected: QuerySet[Any] = rows.alias(**query.aliases).filter(condition).order_by(*orders, last, "pk")
    return selected


@lru_cache(maxsize=1)
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", start=["filter", "order"], maybe_placeholders=True)


@v_args(inline=True)
class _Query(Transformer[Token, Any]):
    """Transforms a parse tree to a condition, or an order, of rows with `aliases`."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        super().__init__()
        self._fields = fields
        self.aliases: dict[str, Any] = {}

    def read(self, text: str, start: str) -> Any:
        """Raises MlflowError."""
        if len(text) > LONGEST:
            raise MlflowError.invalid(f"a filter has at most {LONGEST} characters")
        try:
            return self.transform(_parser().parse(text, start=start))
        except UnexpectedInput as error:
            use = (
                "FIELD OPERATOR VALUE, joined by AND"
                if start == "filter"
                else "FIELD, FIELD ASC or FIELD DESC"
            )
            raise MlflowError.invalid(
                f"{text[:200]!r} is not understood at column {error.column}: use {use}"
            ) from error
        except VisitError as error:
            raise error.orig_exc from error

    def filter(self, *conditions: Q) -> Q:
        return Q(*conditions)

    def order(self, field: Token, direction: Token | None) -> Any:
        expression = F(self._alias(field)[1])
        down = direction is not None and direction.lower() == "desc"
        return expression.desc(nulls_last=True) if down else expression.asc(nulls_last=True)

    def compared(self, field: Token, operator: Token, value: Token) -> Q:
        name, alias = self._alias(field)
        word = operator.lower()
        wanted = _value(name, field, word, value)
        if word == "!=":
            return ~Q(**{alias: wanted}) & Q(**{f"{alias}__isnull": False})
        return Q(**{f"{alias}{_LOOKUPS[word]}": wanted})

    def listed(self, field: Token, negation: Token | None, *values: Token) -> Q:
        name, alias = self._alias(field)
        condition = Q(**{f"{alias}__in": [_value(name, field, "=", value) for value in values]})
        return ~condition if negation else condition

    def absent(self, field: Token, negation: Token | None) -> Q:
        return Q(**{f"{self._alias(field)[1]}__isnull": negation is None})

    def _alias(self, field: Token) -> tuple[str, str]:
        """Return the field or the kind of its key, and the alias of its value."""
        head, key = re.fullmatch(r"(?:(\w+|`\w+`)\.)?(.+)", field).groups()  # type: ignore[union-attr]
        kind, key = KINDS.get((head or "").strip("`"), (head or "").strip("`")), key.strip('"`')
        name = kind if kind and kind not in ATTRIBUTES else key if key in self._fields else key.lower()
        if name not in self._fields or callable(self._fields[name]) != (name == kind):
            raise MlflowError.invalid(f"{field} is not a field: use {', '.join(self._fields)}")
        if len(self.aliases) >= DEEPEST:
            raise MlflowError.invalid(f"filter and order_by have at most {DEEPEST} fields")
        alias = f"value_{len(self.aliases)}"
        self.aliases[alias] = self._fields[name](key) if name == kind else self._fields[name]
        return name, alias


def _value(name: str, field: str, word: str, value: Token) -> Any:
    """Return a value to compare with a field. Raises MlflowError if its type or the operator does not fit."""
    number = name == "metrics" or name in MOMENTS
    if number == (value.type == "TEXT") or word in (("like", "ilike") if number else ("<", "<=", ">", ">=")):
        raise MlflowError.invalid(
            f"compare {field} with {'a number' if number else 'a text in quotes by =, !=, LIKE or ILIKE'}"
        )
    if name in MOMENTS:
        return moment_of(value)
    if "like" not in word:
        return float(value) if number else str(value[1:-1])
    wild = {"%": ".*", "_": "."}
    return f"^{''.join(wild.get(part) or re.escape(part) for part in re.split('([%_])', value[1:-1]))}$"
