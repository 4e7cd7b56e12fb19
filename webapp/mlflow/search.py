"""MLflow's filter language, `metrics.loss < 1 and params.model = "tiny"`, and its order_by."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson
from django.db import models
from django.db.models import F, Func, Q, QuerySet, Value
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
KINDS = {
    "metric": "metrics",
    "param": "params",
    "parameter": "params",
    "parameters": "params",
    "tag": "tags",
    "dataset": "datasets",
}
DATASETS = {
    "name": "$[*].dataset.name",
    "digest": "$[*].dataset.digest",
    "context": '$[*].tags[*] ? (@.key == "mlflow.data.context").value',
}
"""Field of a run's data sets -> JSON path."""
ON = ("dataset_name", "dataset_digest")
"""Fields of the data set of a logged model's metric."""
ATTRIBUTES = ("attribute", "attributes", "attr", "run")
MOMENTS = (
    "start_time",
    "created",
    "end_time",
    "creation_time",
    "last_update_time",
    "creation_timestamp",
    "last_updated_timestamp",
)
_LOOKUPS = {
    "=": "",
    "<": "__lt",
    "<=": "__lte",
    ">": "__gt",
    ">=": "__gte",
}


def _text_of(column: str) -> Callable[[str], Any]:
    """Return the expression of a key's text in a JSON column."""
    text: Any = models.TextField()
    return lambda key: models.Func(
        F(column), Value(key), function="jsonb_extract_path_text", output_field=text
    )


def quoted(text: Any) -> str:
    """Return a text as a literal of SQL's JSON paths."""
    return orjson.dumps(str(text)).decode()


class _Path(Value):
    """A JSON path, with its type: Postgres finds no function of JSON paths for a text."""

    def as_sql(self, *arguments: Any, **options: Any) -> Any:
        sql, parameters = super().as_sql(*arguments, **options)
        return f"{sql}::jsonpath", parameters


@dataclass(frozen=True)
class Items:
    """Values in a JSON column that holds a list. A comparison is true if it is true for one of them."""

    column: str
    path: str

    def any(self, operator: str, wanted: Any) -> Q:
        """Return the condition. operator: of SQL. wanted: a number, a text, or a list of texts for ANY and ALL."""
        number = isinstance(wanted, float)
        text = "(value #>> '{}')"
        left = f"value <> '\"NaN\"' AND {text}::float8" if number else text
        items = Func(F(self.column), _Path(self.path), function="jsonb_path_query")
        return Q(
            Func(
                items,
                Value(wanted),
                arg_joiner=f" AS item(value) WHERE {left} {operator} (",
                template="EXISTS (SELECT 1 FROM %(expressions)s))",
                output_field=models.BooleanField(),
            )
        )

    def first(self) -> Func:
        """Return the number that comes first."""
        return Func(
            F(self.column),
            _Path(self.path),
            template="(jsonb_path_query_first(%(expressions)s) #>> '{}')::float8",
            output_field=models.FloatField(),
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
    "datasets": lambda key: Items("mlflow__inputs", DATASETS[key]) if key in DATASETS else None,
}
"""Fields of runs, and functions of the keys of params, tags, metrics and data sets."""
MODELS: Mapping[str, Any] = {
    "model_id": F("pk"),
    "name": F("name"),
    "model_type": F("model_type"),
    "status": F("status"),
    "source_run_id": models.Case(models.When(alone=False, then=F("run_id"))),
    "creation_time": F("created_at"),
    "creation_timestamp": F("created_at"),
    "last_updated_timestamp": F("updated_at"),
    "params": _text_of("params"),
    "tags": _text_of("tags"),
}
EXPERIMENTS: Mapping[str, Any] = {
    "name": F("name"),
    "creation_time": F("created_at"),
    "last_update_time": F("updated_at"),
    "tags": _text_of("tags"),
}


def metrics_on(datasets: Iterable[Mapping[str, Any]]) -> Callable[[str], Items]:
    """Return the field of the metrics of logged models on one of these data sets; without data sets, of all metrics."""
    chosen = " || ".join(
        " && ".join(f"@.{name} == {quoted(dataset[name])}" for name in ON if dataset.get(name))
        for dataset in datasets
    )
    also = f" && ({chosen})" if chosen else ""
    return lambda key: Items("metrics", f"$[*] ? (@.key == {quoted(key)}{also}).value")


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


class _Like(models.Func):
    """`text LIKE pattern`."""

    template = "(%(expressions)s)"
    output_field = models.BooleanField()


@v_args(inline=True)
class _Query(Transformer[Token, Any]):
    """Transforms a parse tree to a condition, or an order, of rows with `aliases`."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        super().__init__()
        self._fields = fields
        self.aliases: dict[str, Any] = {}
        self._used = 0

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
        name, operand = self._named(field)
        if name == "datasets":
            raise MlflowError.invalid("runs cannot be ordered by their data sets")
        expression = operand.first() if isinstance(operand, Items) else F(self._alias(operand))
        down = direction is not None and direction.lower() == "desc"
        return expression.desc(nulls_last=True) if down else expression.asc(nulls_last=True)

    def compared(self, field: Token, operator: Token, value: Token) -> Q:
        name, operand = self._named(field)
        word = operator.lower()
        wanted = _value(name, field, word, value)
        if isinstance(operand, Items):
            return operand.any("<>" if word == "!=" else word, wanted)
        alias = self._alias(operand)
        if "like" in word:
            return Q(_Like(F(alias), Value(wanted), arg_joiner=f" {word} "))
        if word == "!=":
            return ~Q(**{alias: wanted}) & Q(**{f"{alias}__isnull": False})
        return Q(**{f"{alias}{_LOOKUPS[word]}": wanted})

    def listed(self, field: Token, negation: Token | None, *values: Token) -> Q:
        name, operand = self._named(field)
        wanted = [_value(name, field, "=", value) for value in values]
        if isinstance(operand, Items):
            return operand.any("<> ALL" if negation else "= ANY", wanted)
        condition = Q(**{f"{self._alias(operand)}__in": wanted})
        return ~condition if negation else condition

    def absent(self, field: Token, negation: Token | None) -> Q:
        _, operand = self._named(field)
        if isinstance(operand, Items):
            raise MlflowError.invalid(f"compare {field} with a value")
        return Q(**{f"{self._alias(operand)}__isnull": negation is None})

    def _named(self, field: Token) -> tuple[str, Any]:
        """Return the field or the kind of its key, and the expression of its value, or its Items."""
        head, key = re.fullmatch(r"(?:(\w+|`\w+`)\.)?(.+)", field).groups()  # type: ignore[union-attr]
        kind, key = KINDS.get((head or "").strip("`"), (head or "").strip("`")), key.strip('"`')
        name = kind if kind and kind not in ATTRIBUTES else key if key in self._fields else key.lower()
        known = name in self._fields and callable(self._fields[name]) == (name == kind)
        operand = (self._fields[name](key) if name == kind else self._fields[name]) if known else None
        if operand is None:
            raise MlflowError.invalid(f"{field} is not a field: use {', '.join(self._fields)}")
        self._used += 1
        if self._used > DEEPEST:
            raise MlflowError.invalid(f"filter and order_by have at most {DEEPEST} fields")
        return name, operand

    def _alias(self, expression: Any) -> str:
        """Return the alias of a value."""
        alias = f"value_{len(self.aliases)}"
        self.aliases[alias] = expression
        return alias


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
    return re.sub("%+", "%", value[1:-1]).replace("\\", r"\\")
