"""The first tasks that an import would write, as the roles of its environment see them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from training_core.errors import DataError
from training_core.llm.datasets.columns import Columns, task_line
from training_core.llm.datasets.importing import Request, chosen_files
from training_core.llm.datasets.rows import Row, find_splits, read_rows
from training_core.llm.environments.coding import CodingEnvironment, Problem
from training_core.llm.environments.dataset import DatasetEnvironment, read_instance
from training_core.types import Message

ROWS = 200
"""Rows that a preview reads."""
MOST_COLUMNS = 1000
"""Columns that it lists."""
MOST_BYTES = 32 << 20
"""Bytes of rows, decoded, after which it stops."""
QUESTIONS = ("prompt", "question", "problem", "instruction", "statement", "text", "messages")
ANSWERS = ("label", "answer", "solution", "target", "output")
TESTS = ("tests", "test_cases", "input_output")


@dataclass
class Preview:
    """What is known of a source after its first rows."""

    splits: list[str]
    columns: list[str] = field(default_factory=list)
    chosen: Columns = Columns()
    """The columns of the request, or guessed ones."""
    tasks: list["PreviewedTask"] = field(default_factory=list)
    rows: int = 0
    """Rows read, at most ROWS."""
    invalid: int = 0
    """Rows of these that are no tasks with the columns of the request."""
    first_invalid: str = ""
    problem: str = ""
    """Why there are no rows, although there are splits."""


@dataclass(frozen=True)
class PreviewedTask:
    """One task."""

    origin: str
    messages: tuple[Message, ...]
    """The first observation: without the role's own prompt, before the chat template."""
    data: Mapping[str, Any]
    """What the reward function receives besides the answer; no role sees it."""


def preview(request: Request, tasks: int = 3, *, guess: bool = False) -> Preview:
    """Read the first rows of a source. `guess`: the columns by their names. Raises DataError if there are none that can be read."""
    splits = find_splits(request.source)
    rows = _first_rows(chosen_files(splits, request))
    columns = list(dict.fromkeys(name for row in rows for name in row.values))
    chosen = guess_columns(columns) if guess else request.columns
    seen = Preview(sorted(filter(None, splits)), columns[:MOST_COLUMNS], chosen, rows=len(rows))
    for row in rows:
        try:
            task = _previewed(row, chosen)
        except DataError as error:
            seen.invalid += 1
            seen.first_invalid = seen.first_invalid or str(error.advice.cause)
        else:
            seen.tasks += [task] if len(seen.tasks) < tasks else []
    return seen


def _first_rows(files: list[Path]) -> list[Row]:
    rows: list[Row] = []
    size = 0
    for row in read_rows(files):
        rows.append(row)
        size += row.size
        if len(rows) == ROWS or size > MOST_BYTES:
            break
    return rows


def _previewed(row: Row, columns: Columns) -> PreviewedTask:
    """Raises DataError if the row is no task."""
    line = task_line(row, columns)
    if columns.environment == "coding":
        problem = Problem.model_validate(line)
        coding = CodingEnvironment.__new__(
            CodingEnvironment
        )  # the constructor reads files and starts a sandbox
        coding.begin(problem)
        text = Message(role="user", content=coding.observe("coder"))
        return PreviewedTask(row.origin, (text,), {"tests": line["tests"], "solution": line["solution"]})
    dataset = DatasetEnvironment.__new__(DatasetEnvironment)
    dataset.begin(read_instance(line, 0))
    shown = {name: value for name, value in line.items() if name not in ("prompt", "instance_id")}
    return PreviewedTask(row.origin, dataset.observe("solver"), shown)


def guess_columns(names: list[str]) -> Columns:
    """The columns by the names that public data sets use; the first column if none of them asks."""

    def first(wanted: tuple[str, ...]) -> str:
        return next((name for name in wanted if name in names), "")

    tests = first(TESTS)
    question = first(QUESTIONS) or (names[0] if names else "prompt")
    if tests:
        return Columns(question, tests=tests, solution=first(("solution", "solutions")))
    return Columns(question, first(tuple(name for name in ANSWERS if name != question)))
