"""Arithmetic problems: drawn, evaluated exactly, and written in digits for a calculator and in words for a reader."""

import ast
import operator
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from random import Random

from training_core.llm.environments.arithmetic.config import Arithmetic
from training_core.llm.environments.base import Split
from training_core.seeding import keyed_seed

SPOKEN = {"+": "plus", "-": "minus", "*": "times", "/": "over"}
"""Name of an operator in a problem."""
MOST_LETTERS = 200
"""Maximum characters of an expression for the calculator."""
HELD_OUT_TASKS = 1024
_HELD_OUT_SEED = 7_919
"""Held-out tasks do not depend on the run's seed, so runs can be compared."""
_OPERATIONS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


@dataclass(frozen=True)
class Problem:
    """A task instance: integers and the operators between them, multiplication and division first."""

    expression: str
    """The expression for the calculator, parts separated by spaces."""
    value: Fraction

    @property
    def words(self) -> str:
        """The problem as shown: operators by name."""
        return " ".join(SPOKEN.get(part, part) for part in self.expression.split())


def calculate(expression: str) -> Fraction | None:
    """The exact value of numbers, + - * / and brackets; None for anything else, and for a division by zero.

    No code is executed: the syntax tree is walked, and powers, which could grow without limit, are not supported.
    """
    if len(expression) > MOST_LETTERS:
        return None
    try:
        return _value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr) -> Fraction:
    """Raises ValueError for anything but arithmetic."""
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = _value(node.operand)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return Fraction(str(node.value))
    raise ValueError("no arithmetic")


def spelled(value: Fraction) -> str:
    """A number as text, parts separated by spaces: 19, -3, 3 / 4."""
    return str(value.numerator) if value.denominator == 1 else f"{value.numerator} / {value.denominator}"


def held_out(problem: Problem) -> bool:
    """Whether an instance is never trained on: a fixed quarter of all instances, independent of the run's seed."""
    return zlib.crc32(problem.expression.encode()) % 4 == 0


def draw_problem(config: Arithmetic, random: Random, split: Split) -> Problem:
    """A problem of a split that has a value, which is an integer unless fractions are enabled."""
    while True:
        parts = [str(random.randint(0, config.largest))]
        for _ in range(config.terms - 1):
            parts += [random.choice(config.operators), str(random.randint(0, config.largest))]
        value = calculate(" ".join(parts))
        if value is None or (value.denominator != 1 and not config.fractions):
            continue
        problem = Problem(" ".join(parts), value)
        if held_out(problem) == (split == "eval"):
            return problem


@lru_cache(maxsize=4)
def held_out_problems(config: Arithmetic) -> tuple[Problem, ...]:
    """The held-out tasks, all different; fewer than HELD_OUT_TASKS if not that many exist."""
    problems: dict[Problem, None] = {}
    for number in range(4 * HELD_OUT_TASKS):
        problems.setdefault(draw_problem(config, Random(keyed_seed(_HELD_OUT_SEED, 1, number)), "eval"))
        if len(problems) == HELD_OUT_TASKS:
            break
    return tuple(problems)


def task_problem(config: Arithmetic, seed: int, task: int, split: Split) -> Problem:
    """The instance of a task number; held-out numbers wrap around."""
    if split == "train":
        return draw_problem(config, Random(keyed_seed(seed, 0, task)), split)
    problems = held_out_problems(config)
    return problems[task % len(problems)]
