"""Expressions of metrics: `eval/success - train/success`, evaluated at the steps that all their metrics have in common.

A text without spaces and parentheses is the name of one metric. Names with other characters are quoted.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from lark import Lark, Token, Transformer, UnexpectedInput, UnexpectedToken, v_args

from training_core.errors import ConfigError
from webapp.metrics.arrays import Floats

GRAMMAR = r"""
?start: sum
?sum: product | sum "+" product -> add | sum "-" product -> subtract
?product: sign | product "*" sign -> multiply | product "/" sign -> divide
?sign: power | "-" power -> negative
?power: atom | atom "^" atom -> power
?atom: NUMBER -> number | METRIC -> metric | QUOTED -> quoted | "(" sum ")" | FUNCTION "(" sum ")" -> call
NUMBER.2: /(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?(?![\w\/])/
FUNCTION.2: /(abs|exp|log|sqrt)(?=\s*\()/
METRIC: /[A-Za-z_]([\w.:\/-]*\w)?/
QUOTED: /"[^"\n]+"/
%ignore /\s+/
"""
_NOT_PLAIN = re.compile(r'[\s()"]')
LONGEST = 200
FUNCTIONS: dict[str, Callable[[Floats], Floats]] = {
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
}
Columns = Mapping[str, Floats]
"""Values by metric, all at the same steps."""
Value = Callable[[Columns], Any]


@dataclass(frozen=True)
class Expression:
    """A parsed expression."""

    text: str
    keys: tuple[str, ...]
    """Its metrics, each once."""
    value: Value
    """Computes it from the columns of `keys`; infinite or NaN where it is not defined."""

    @property
    def single(self) -> bool:
        """Whether it is a metric alone."""
        return self.keys == (self.text,)


def is_plain(key: str) -> bool:
    """Whether the name of a metric is an expression as it is, without quotes."""
    return not _NOT_PLAIN.search(key)


def expression_read(text: str, field: str = "key") -> Expression:
    """Parse an expression. Raises ConfigError under the name of the field: the position, and what is expected."""
    text = text.strip()
    if not text or len(text) > LONGEST:
        raise ConfigError({field: f"give a metric or an expression of at most {LONGEST} characters"})
    if not set(text) & set(' ()"\t\n'):
        return Expression(text, (text,), lambda columns: columns[text])
    return _parsed(text, field)


@lru_cache(1)
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr")


def _parsed(text: str, field: str) -> Expression:
    builder = _Builder()
    try:
        value = builder.transform(_parser().parse(text))
    except UnexpectedInput as error:
        if isinstance(error, UnexpectedToken) and error.token.type == "$END":
            raise ConfigError({field: f"{text!r} is incomplete: its end is missing"}) from error
        rest = text[max(0, error.column - 1) :][:20]
        advice = "write operators + - * / ^ between spaces, and other names in double quotes"
        message = f"{text!r}: {rest!r} is not expected (column {error.column}); {advice}"
        raise ConfigError({field: message}) from error
    if not builder.keys:
        raise ConfigError({field: f"{text!r} has no metric, such as eval/success"})
    return Expression(text, tuple(builder.keys), value)


@v_args(inline=True)
class _Builder(Transformer[Token, Value]):
    """Makes a function of the columns from the tree; collects the metrics."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: dict[str, None] = {}

    def number(self, token: Token) -> Value:
        constant = float(token)
        return lambda columns: constant

    def metric(self, token: Token) -> Value:
        return self._column(str(token))

    def quoted(self, token: Token) -> Value:
        return self._column(str(token)[1:-1])

    def call(self, name: Token, inner: Value) -> Value:
        function = FUNCTIONS[str(name)]
        return lambda columns: function(inner(columns))

    def negative(self, inner: Value) -> Value:
        return lambda columns: -inner(columns)

    def add(self, left: Value, right: Value) -> Value:
        return lambda columns: left(columns) + right(columns)

    def subtract(self, left: Value, right: Value) -> Value:
        return lambda columns: left(columns) - right(columns)

    def multiply(self, left: Value, right: Value) -> Value:
        return lambda columns: left(columns) * right(columns)

    def divide(self, left: Value, right: Value) -> Value:
        return lambda columns: np.divide(left(columns), right(columns))

    def power(self, base: Value, exponent: Value) -> Value:
        return lambda columns: np.power(np.asarray(base(columns), dtype=float), exponent(columns))

    def _column(self, key: str) -> Value:
        self.keys[key] = None
        return lambda columns: columns[key]
