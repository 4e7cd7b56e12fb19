"""Programming problems: small ones generated from a seed, or from a file.

A generated problem chains operations on one number: "add 3 then times 2" expects 10 for 2. A file has one problem per
line: {"statement": str, "tests": [{"input": str, "output": str}, ...], "solution": str, optional, "id": str,
optional}.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from training_core.errors import EnvironmentFailure
from training_core.llm.environments.base import Split
from training_core.llm.environments.coding.config import Coding
from training_core.llm.environments.dataset.instances import data_file
from training_core.llm.environments.splits import Tasks, held_out

OPERATIONS = {"add": "+", "subtract": "-", "times": "*"}


class Test(BaseModel):
    """An input with the expected output."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    __test__ = False

    input: str
    output: str


class Problem(BaseModel):
    """A programming problem."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    statement: str = Field(min_length=1)
    tests: tuple[Test, ...] = Field(min_length=1)
    solution: str = ""
    """A correct program; empty if none is known: the tester's tests then get no reward."""
    id: str = ""

    @property
    def identity(self) -> str:
        """The key that splits compare: problems with equal statements are identical."""
        return self.statement


@dataclass(frozen=True)
class _Named:
    identity: str


@dataclass(frozen=True)
class Step:
    """One operation on the number so far."""

    word: str
    amount: int

    def apply(self, value: int) -> int:
        """The number after this operation."""
        if self.word == "add":
            return value + self.amount
        return value - self.amount if self.word == "subtract" else value * self.amount


def draw_problem(config: Coding, random: Random, split: Split) -> Problem:
    """A problem of a split: from the file if there is one, otherwise a generated one. Raises EnvironmentFailure."""
    if config.problems:
        problem = random.choice(_split(read_problems(config.problems), split))
        return problem.model_copy(update={"tests": problem.tests[: config.hidden_tests]})
    return posed(draw_steps(config, random, split), config, random)


def draw_steps(config: Coding, random: Random, split: Split) -> tuple[Step, ...]:
    """Operations of a split."""
    while True:
        steps = tuple(
            Step(random.choice(list(OPERATIONS)), random.randint(1, config.largest))
            for _ in range(config.steps)
        )
        if held_out(_Named(stated(steps))) == (split == "eval"):
            return steps


def posed(steps: Sequence[Step], config: Coding, random: Random) -> Problem:
    """The problem for these operations."""
    inputs = random.sample(range(config.largest + 1), min(config.hidden_tests, config.largest + 1))
    return Problem(
        statement=stated(steps),
        tests=tuple(Test(input=str(value), output=str(applied(steps, value))) for value in inputs),
        solution=program(steps),
    )


def stated(steps: Sequence[Step]) -> str:
    """The operations in words."""
    return " then ".join(f"{step.word} {step.amount}" for step in steps)


def applied(steps: Sequence[Step], value: int) -> int:
    """The number after all of them."""
    for step in steps:
        value = step.apply(value)
    return value


def program(steps: Sequence[Step]) -> str:
    """A correct program, in words of a word-level tokenizer."""
    expression = "n"
    for step in steps:
        inner = expression if expression == "n" else f"( {expression} )"
        expression = f"{inner} {OPERATIONS[step.word]} {step.amount}"
    return f"n = int(input()) ; print( {expression} )"


@lru_cache(maxsize=4)
def read_problems(path: str) -> tuple[Problem, ...]:
    """A file's problems. Raises EnvironmentFailure, which names an invalid line."""
    try:
        lines = data_file(path, "environment.problems").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentFailure(f"environment.problems: cannot read {path}: {error}") from error
    problems = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            problems.append(Problem.model_validate_json(line))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"])) or "line"
            raise EnvironmentFailure(f"{path}, line {number}: {field}: {first['msg']}") from error
    if not problems:
        raise EnvironmentFailure(f"{path} contains no problem")
    return tuple(problems)


def _split(problems: Sequence[Problem], split: Split) -> list[Problem]:
    """Problems of one split. Raises EnvironmentFailure if there is none."""
    selected = [problem for problem in problems if held_out(problem) == (split == "eval")]
    if not selected:
        raise EnvironmentFailure(
            f"of {len(problems)} problems none falls into the {split} part (a quarter is held out, by the text); add more"
        )
    return selected


CODING_TASKS: Tasks[Coding, Problem] = Tasks(draw_problem)
