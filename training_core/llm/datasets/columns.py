"""Columns of foreign data as lines of Troupe's: a row becomes a task of the environment `dataset` or `coding`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pydantic import ValidationError

from training_core.errors import DataError
from training_core.json_lines import InvalidJson, parse_json
from training_core.llm.datasets.rows import Row
from training_core.llm.environments.coding import Problem
from training_core.llm.environments.dataset import read_instance

SKIP = "--skip-invalid"
MOST_NAMED = 20
"""Columns that an error lists."""


@dataclass(frozen=True)
class Columns:
    """The columns of the source that a task is made of."""

    question: str = "prompt"
    """Text, or messages."""
    answer: str = ""
    """Becomes the field `label`; empty: columns `label` and `answer` as they are."""
    tests: str = ""
    """Inputs and outputs: the task is then one of `coding`, otherwise one of `dataset`."""
    solution: str = ""
    """A correct program, or a list of which the first is used."""
    id: str = ""
    """Empty: a hash of the question."""
    keep: tuple[str, ...] = ()
    """Further columns for the reward function, under their own names."""

    @property
    def environment(self) -> str:
        """The environment that plays the tasks."""
        return "coding" if self.tests else "dataset"


def task_line(row: Row, columns: Columns) -> dict[str, Any]:
    """The line of a task for a row. Raises DataError, which names the row."""
    try:
        if row.problem:
            raise ValueError(row.problem)
        return _problem(row.values, columns) if columns.tests else _prompt(row.values, columns)
    except (ValueError, TypeError) as error:
        raise DataError(
            f"{row.origin}: {error}", remedy=f"correct it, or leave such rows out with {SKIP}"
        ) from error


def _prompt(values: Mapping[str, Any], columns: Columns) -> dict[str, Any]:
    """A line of `dataset`. Raises ValueError."""
    line: dict[str, Any] = {"prompt": _filled(values, columns.question, "--question")}
    if columns.answer:
        line["label"] = _filled(values, columns.answer, "--answer")
    else:
        line |= {name: values[name] for name in ("label", "answer") if values.get(name) is not None}
    line |= {name: _column(values, name, "--keep") for name in columns.keep}
    if columns.id:
        line["instance_id"] = str(_filled(values, columns.id, "--id"))
    read_instance(line, 0)
    json.dumps(line, allow_nan=False)  # a value without JSON, such as bytes or a date, is a TypeError
    return line


def _problem(values: Mapping[str, Any], columns: Columns) -> dict[str, Any]:
    """A line of `coding`. Raises ValueError."""
    solution = _parsed(_column(values, columns.solution, "--solution")) if columns.solution else ""
    solution = next(iter(solution), "") if isinstance(solution, list) else solution
    line = {
        "statement": _filled(values, columns.question, "--question"),
        "tests": _pairs(_parsed(_filled(values, columns.tests, "--tests"))),
        "solution": solution or "",
    }
    if columns.id:
        line["id"] = str(_filled(values, columns.id, "--id"))
    try:
        return Problem.model_validate(line).model_dump(mode="json")
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def _pairs(tests: Any) -> Any:
    """[{"input", "output"}, ...] of the same, or of two lists {"input(s)": [...], "output(s)": [...]}."""
    if not isinstance(tests, dict):
        return tests
    inputs, outputs = (tests.get(name, tests.get(f"{name}s")) for name in ("input", "output"))
    if not isinstance(inputs, list) or not isinstance(outputs, list) or len(inputs) != len(outputs):
        raise ValueError(
            "tests: neither a list of {input, output} nor lists of inputs and outputs of one length"
        )
    return [{"input": one, "output": other} for one, other in zip(inputs, outputs, strict=True)]


def _parsed(value: Any) -> Any:
    """A list or object that is written as JSON; anything else as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return parse_json(value)
        except InvalidJson:
            return value
    return value


def _column(values: Mapping[str, Any], name: str, option: str) -> Any:
    if name not in values:
        there = ", ".join(islice(values, MOST_NAMED)) + (" and others" if len(values) > MOST_NAMED else "")
        raise ValueError(f"no column {name!r} ({option}); there are {there or 'none'}")
    return values[name]


def _filled(values: Mapping[str, Any], name: str, option: str) -> Any:
    value = _column(values, name, option)
    if value is None or value == "" or value == []:
        raise ValueError(f"column {name!r} ({option}) is empty")
    return value
