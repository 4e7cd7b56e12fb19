"""Rows of data sets on disk: JSON Lines, parquet, and folders of such files or of the library `datasets` (save_to_disk).

JSON Lines need nothing; parquet and Arrow files need pyarrow, the extra `data`, which is imported on use.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training_core.errors import DataError, import_cause
from training_core.json_lines import InvalidJson, check_values, parse_json, read_lines

JSON_LINES = (".jsonl", ".ndjson")
SUFFIXES = (*JSON_LINES, ".parquet", ".arrow")
SPLIT = re.compile(r"(train|test|validation|valid|val|dev|eval)(?![a-z0-9])", re.IGNORECASE)
"""The split in the name of a file or folder: train-00000-of-00002.parquet, test.jsonl, data/validation/."""
ALL = ""
"""The split of files whose names have none."""
BATCH = 64
"""Rows of a table that are decoded at a time: a value that the file has once may stand in each of them."""


@dataclass(frozen=True)
class Row:
    """One row of a file."""

    origin: str
    """File and line or row, from 1."""
    values: Mapping[str, Any]
    """Columns; empty if the line is invalid."""
    problem: str = ""
    """Why the line is invalid."""
    size: int = 0
    """Bytes of the line, or of the row's share of a table's memory."""


def find_splits(source: Path) -> dict[str, list[Path]]:
    """The data files of a file or folder by split. Raises DataError if there are none."""
    if not source.exists():
        raise DataError(f"there is no file or folder {source}:", remedy="name an existing one")
    if source.is_file():
        if source.suffix not in SUFFIXES:
            raise DataError(f"{source} is none of {', '.join(SUFFIXES)}:", remedy="convert it to JSON Lines")
        return {ALL: [source]}
    splits: dict[str, list[Path]] = {}
    for path in _files(source):
        splits.setdefault(_split_of(path.relative_to(source)), []).append(path)
    if not splits:
        raise DataError(
            f"{source} has no file that ends in {', '.join(SUFFIXES)}:",
            remedy="convert the data to JSON Lines",
        )
    return splits


def _files(folder: Path) -> list[Path]:
    """Data files below a folder, in order. A folder of `datasets` lists its own, so that its caches are left out."""
    files = []
    for path in sorted(folder.rglob("*")):
        state = path.parent / "state.json"
        if path.suffix == ".arrow" and state.is_file() and path.name not in _listed(state):
            continue
        if path.suffix in SUFFIXES and path.is_file():
            files.append(path)
    return files


def _listed(state: Path) -> set[str]:
    """The files that a state.json of `datasets` lists. Raises DataError."""
    try:
        return {file["filename"] for file in parse_json(state.read_bytes())["_data_files"]}
    except (OSError, InvalidJson, KeyError, TypeError) as error:
        raise DataError(f"{state} does not list the files of a data set", remedy="save it again") from error


def _split_of(path: Path) -> str:
    """The split in a path below the source, of the file's name before its folders'."""
    matches = (SPLIT.match(part) for part in reversed(path.parts))
    return next((match[1].lower() for match in matches if match), ALL)


def read_rows(files: list[Path]) -> Iterator[Row]:
    """Every row of the files, in order; empty lines are skipped. Raises DataError for a file that cannot be read."""
    for path in files:
        try:
            yield from _json_rows(path) if path.suffix in JSON_LINES else _table_rows(path)
        except OSError as error:
            raise DataError(f"cannot read {path}: {error}") from error


def _json_rows(path: Path) -> Iterator[Row]:
    for line in read_lines(path):
        origin = f"{path.name}, line {line.number}"
        if line.problem or isinstance(line.value, dict):
            yield Row(origin, line.value or {}, line.problem, line.size)
        else:
            yield Row(origin, {}, "not a JSON object", line.size)


def _table_rows(path: Path) -> Iterator[Row]:
    number = 0
    for batch in _batches(path):
        for start in range(0, batch.num_rows, BATCH):
            part = batch.slice(start, BATCH)
            for values in part.to_pylist():
                number += 1
                yield _table_row(f"{path.name}, row {number}", values, part.nbytes // part.num_rows)


def _table_row(origin: str, values: dict[str, Any], size: int) -> Row:
    try:
        check_values(values)
    except InvalidJson as error:
        return Row(origin, {}, str(error), size)
    return Row(origin, values, "", size)


def _batches(path: Path) -> Iterator[Any]:
    """Record batches of a parquet or Arrow file."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise DataError(
            f"{path.name} needs pyarrow: {import_cause(error)}",
            remedy='pip install "troupe[data]", or convert it to JSON Lines',
        ) from error
    try:
        if path.suffix == ".parquet":
            with pyarrow.parquet.ParquetFile(path, pre_buffer=False) as file:
                yield from file.iter_batches(BATCH, use_threads=False)
        else:
            with pyarrow.memory_map(str(path)) as source, pyarrow.ipc.open_stream(source) as batches:
                yield from batches
    except MemoryError:
        raise
    except (pyarrow.ArrowException, UnicodeDecodeError, OverflowError) as error:
        raise DataError(f"cannot read {path}: {error}") from error
