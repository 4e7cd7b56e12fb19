"""Data sets of others as data of Troupe: rows become tasks of the environments `dataset` and `coding`, in two files.

Two tasks are the same if their texts have the same words, whatever their case and spaces. A task is in one of the files only, once.
"""

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from training_core.errors import DataError
from training_core.json_lines import json_line
from training_core.llm.datasets.columns import SKIP, Columns, task_line
from training_core.llm.datasets.folders import data_folder, data_path
from training_core.llm.datasets.rows import find_splits, read_rows

TRAIN, EVAL = "train.jsonl", "eval.jsonl"
FIELDS = {"dataset": ("path", "eval_path"), "coding": ("problems", "eval_problems")}
"""Environment -> its fields for the two files."""
DROP = "--drop-shared"
EVAL_SHARE = 0.1


@dataclass
class Imported:
    """What an import wrote. Numbers of tasks or rows."""

    name: str
    environment: str
    folder: Path
    train: int = 0
    held_out: int = 0
    duplicates: int = 0
    """Rows that repeat a task of the same file."""
    shared: int = 0
    """Tasks that were left out of training because they are held out."""
    invalid: int = 0
    first_invalid: str = ""
    changed: bool = True
    """False if both files were there already with the same contents."""
    settings: dict[str, str] = field(default_factory=dict)
    """Config fields that name the files."""


@dataclass(frozen=True)
class _Task:
    origin: str
    line: dict[str, Any]

    @property
    def key(self) -> str:
        """Equal for equal tasks."""
        text = self.line.get("statement") or self.line["prompt"]
        parts = [text] if isinstance(text, str) else [message["content"] for message in text]
        return hashlib.sha256(" ".join(" ".join(parts).split()).casefold().encode()).hexdigest()

    @property
    def answer(self) -> Any:
        """None if the line has none."""
        return self.line.get("label", self.line.get("answer"))


@dataclass(frozen=True)
class Request:
    """What to import."""

    source: Path
    columns: Columns = Columns()
    split: str = ""
    """Split of the source to train on; empty: train, or all if there is one only."""
    held_out: str = ""
    """Held-out tasks: a split of the source, or a file or folder; empty: a share of the tasks."""
    eval_share: float | None = None
    """Without `held_out`; None: EVAL_SHARE."""
    skip_invalid: bool = False
    drop_shared: bool = False
    replace: bool = False


def import_data(name: str, request: Request, home: Path, project: str = "") -> Imported:
    """Write the tasks below `home`/data, in the folder `name` of a project, or outside of the projects' folders.

    Raises DataError with file and line, and leaves the files as they were.
    """
    path = data_path(name, project)
    check_options(request)
    columns = request.columns
    result = Imported(name, columns.environment, data_folder(home) / path)
    splits = find_splits(request.source)
    train = _tasks(chosen_files(splits, request), request, result)
    if request.held_out:
        files = splits.get(request.held_out) or _of_other_source(request.held_out, splits)
        held_out = _tasks(files, request, result)
        train = _without(held_out, train, request, result)
    else:
        share = request.eval_share or EVAL_SHARE
        held_out = {key: task for key, task in train.items() if int(key[:8], 16) < share * 2**32}
        train = {key: task for key, task in train.items() if key not in held_out}
    _check_not_empty(train, held_out)
    _number_ids([*train.values(), *held_out.values()])
    result.train, result.held_out = len(train), len(held_out)
    fields = FIELDS[columns.environment]
    result.settings = {
        "environment.type": columns.environment,
        f"environment.{fields[0]}": f"{path}/{TRAIN}",
        f"environment.{fields[1]}": f"{path}/{EVAL}",
    }
    result.changed = _write(result.folder, {TRAIN: _text(train), EVAL: _text(held_out)}, request.replace)
    return result


def check_options(request: Request) -> None:
    """Raises DataError for an option that has no effect with the others."""
    columns, coding = request.columns, bool(request.columns.tests)
    unused = {
        "--answer": coding and columns.answer and "with --tests",
        "--keep": coding and columns.keep and "with --tests",
        "--solution": not coding and columns.solution and "without --tests",
        "--eval-share": request.held_out and request.eval_share and "with --eval",
        DROP: not request.held_out and request.drop_shared and "without --eval",
    }
    for option, why in unused.items():
        if why:
            raise DataError(f"{option} has no effect {why}:", remedy="omit it")


def chosen_files(splits: Mapping[str, list[Path]], request: Request) -> list[Path]:
    """The files to train on. Raises DataError if the source has no such split."""
    only = next(iter(splits)) if len(splits) == 1 else "train"
    if (wanted := request.split or only) not in splits:
        raise DataError(
            f"{request.source} has no split {wanted!r} (splits: {_names(splits)}):",
            remedy="name one with --split",
        )
    return splits[wanted]


def _names(splits: Mapping[str, list[Path]]) -> str:
    return ", ".join(sorted(filter(None, splits))) or "none"


def _of_other_source(path: str, splits: Mapping[str, list[Path]]) -> list[Path]:
    source = Path(path).expanduser()
    if not source.exists():
        raise DataError(
            f"--eval: {path} is neither a split of the source nor a file or folder (splits: {_names(splits)}):",
            remedy="name one of them",
        )
    other = find_splits(source)
    if len(other) > 1:
        raise DataError(f"--eval: {path} has several splits ({_names(other)}):", remedy="name one file")
    return next(iter(other.values()))


def _tasks(files: list[Path], request: Request, result: Imported) -> dict[str, _Task]:
    """Tasks by key, in the order of the files. Counts duplicates and invalid rows."""
    tasks: dict[str, _Task] = {}
    for row in read_rows(files):
        try:
            task = _Task(row.origin, task_line(row, request.columns))
            _check_answer(tasks.get(task.key), task)
        except DataError as error:
            if not request.skip_invalid:
                raise
            result.invalid += 1
            result.first_invalid = result.first_invalid or str(error.advice.cause)
            continue
        result.duplicates += task.key in tasks
        tasks.setdefault(task.key, task)
    return tasks


def _check_answer(first: _Task | None, second: _Task) -> None:
    """Raises DataError if the same task has two answers."""
    if first and (one := first.answer) != (other := second.answer):
        raise DataError(
            f"{second.origin}: the same task as {first.origin}, but its answer is {other!r} in place of {one!r}",
            remedy=f"correct one of them, or leave the second one out with {SKIP}",
        )


def _without(
    held_out: Mapping[str, _Task], train: Mapping[str, _Task], request: Request, result: Imported
) -> dict[str, _Task]:
    """The training tasks that are not held out. Raises DataError if there are others, unless they are to be dropped."""
    shared = [key for key in train if key in held_out]
    if shared and not request.drop_shared:
        first = shared[0]
        raise DataError(
            f"{len(shared)} tasks are in training and in evaluation, such as {train[first].origin} and "
            f"{held_out[first].origin}:",
            remedy=f"remove them, or leave them out of training with {DROP}",
        )
    result.shared = len(shared)
    return {key: task for key, task in train.items() if key not in held_out}


def _check_not_empty(train: Mapping[str, _Task], held_out: Mapping[str, _Task]) -> None:
    for tasks, purpose in ((train, "training"), (held_out, "evaluation")):
        if not tasks:
            raise DataError(
                f"no task for {purpose}:", remedy="give more rows, --eval, or another --eval-share"
            )


def _number_ids(tasks: list[_Task]) -> None:
    """Add ids where there are none. Raises DataError if two tasks have one id."""
    origins: dict[str, str] = {}
    for task in tasks:
        name = "id" if "statement" in task.line else "instance_id"
        task.line[name] = task.line.get(name) or task.key[:16]
        if first := origins.get(task.line[name]):
            raise DataError(
                f"{first} and {task.origin} have the same id {task.line[name]!r}:",
                remedy="choose another --id, or leave it out",
            )
        origins[task.line[name]] = task.origin


def _text(tasks: Mapping[str, _Task]) -> str:
    return "".join(json_line(task.line, sort_keys=True) for task in tasks.values())


def _write(folder: Path, files: Mapping[str, str], replace: bool) -> bool:
    """Write a folder as a whole. Returns False if it has these files already. Raises DataError if it has others."""
    try:
        if folder.exists():
            if all(_has(folder / name, text) for name, text in files.items()):
                return False
            if not replace:
                raise DataError(
                    f"{folder} has other tasks, which runs may use:",
                    remedy="choose another name, or overwrite them with --replace",
                )
        draft, old = (folder.with_name(f".{folder.name}.{kind}") for kind in ("draft", "old"))
        for left in (draft, old):  # of an import that was ended
            shutil.rmtree(left, ignore_errors=True)
        draft.mkdir(parents=True)
        for name, text in files.items():
            (draft / name).write_text(text, encoding="utf-8")
        if folder.exists():
            folder.rename(old)
            draft.rename(folder)
            shutil.rmtree(old)
        else:
            draft.rename(folder)
    except OSError as error:
        raise DataError(f"cannot write {folder}: {error}") from error
    return True


def _has(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text
