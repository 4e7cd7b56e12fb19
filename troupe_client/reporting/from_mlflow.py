"""Runs of MLflow, from its folder mlruns or its SQLite file mlflow.db.

Only what is below the folder of these files is read: a file from elsewhere may name, and link to, any folder.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from training_core.errors import TroupeError
from troupe_client.documents.launches import typed
from troupe_client.reporting.importing import (
    ImportedRun,
    NeedsPackage,
    Skipped,
    files_within,
    is_within,
    read_each,
)

STATES = {"1": "running", "2": "running", "4": "failed", "5": "stopped"}
STATES |= {"RUNNING": "running", "SCHEDULED": "running", "FAILED": "failed", "KILLED": "stopped"}
"""Status of MLflow (its number in files, its word in the database) -> state; others become finished."""
UNFINISHED = "line of a metric that is not complete"
NOTE, NAME = "mlflow.note.content", "mlflow.runName"


def runs_of(path: Path, skipped: Skipped | None = None) -> Iterator[ImportedRun]:
    """Yield the runs that are not deleted; `skipped` receives those that cannot be read, with the reasons.

    Raises TroupeError if PyYAML is needed and missing, and for a file of another format.
    """
    if path.is_dir():
        return read_each(sorted(path.glob("*/*/meta.yaml")), partial(_of_folder, path), skipped)
    return _of_database(path, skipped)


def _of_folder(path: Path, meta: Path) -> ImportedRun | None:
    facts, folder = _yaml(path, meta), meta.parent
    if facts.get("lifecycle_stage") == "deleted" or "run_id" not in facts:
        return None
    experiment = _yaml(path, folder.parent / "meta.yaml").get("name", "")
    facts |= {"experiment": experiment, "name": facts.get("run_name")}
    if (artifacts := folder / "artifacts").is_dir():  # also of a folder that was copied here
        facts["artifact_uri"] = artifacts.resolve().as_uri()
    run = _run(facts, _texts(path, folder / "params"), dict(_texts(path, folder / "tags")), path)
    for file in files_within(path, folder / "metrics"):
        key = str(file.relative_to(folder / "metrics"))
        *lines, rest = file.read_text("utf-8").split("\n")
        for line in lines:
            _add_line(run, key, line)
        if rest:  # its program still writes, or was killed
            run.left_out[UNFINISHED] += 1
    return run


def _add_line(run: ImportedRun, key: str, line: str) -> None:
    """Add a line of a metric's file: milliseconds, value and, since MLflow 1.0, step."""
    try:
        written, value, step = [*line.split(), "0"][:3]
        point = int(step), float(value), int(written) / 1000
    except ValueError:
        run.left_out[UNFINISHED] += 1
    else:
        run.add(key, point[0], {key: point[1]}, point[2])


def _of_database(path: Path, skipped: Skipped | None) -> Iterator[ImportedRun]:
    rows = (
        "SELECT run_uuid AS run_id, r.name, status, artifact_uri, e.name AS experiment "
        "FROM runs r JOIN experiments e USING (experiment_id)"
    )
    with sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True) as database:
        database.row_factory = sqlite3.Row
        try:
            active = database.execute(
                f"{rows} WHERE r.lifecycle_stage = 'active' ORDER BY start_time"
            ).fetchall()
        except sqlite3.DatabaseError as error:
            raise TroupeError(f"{path} is not a database of MLflow: {error}") from error
        by_name = {f"run {row['run_id']} of {path}": row for row in active}
        yield from read_each(by_name, lambda name: _of_row(database, dict(by_name[name]), path), skipped)


def _of_row(database: sqlite3.Connection, row: dict[str, Any], path: Path) -> ImportedRun:
    params, tags = (_select(database, "key, value", table, row["run_id"]) for table in ("params", "tags"))
    run = _run(row, params, dict(tags), path.parent)
    points = _select(database, "key, value, step, timestamp, is_nan", "metrics", row["run_id"])
    for key, value, step, written, is_nan in points:
        run.add(key, step, {key: float("nan") if is_nan else value}, written / 1000)
    return run


def _select(database: sqlite3.Connection, columns: str, table: str, run: str) -> list[tuple[Any, ...]]:
    rows = database.execute(f"SELECT {columns} FROM {table} WHERE run_uuid = ? ORDER BY rowid", (run,))
    return [tuple(row) for row in rows]


def _run(
    facts: dict[str, Any], params: Iterable[tuple[str, str]], tags: dict[str, str], root: Path
) -> ImportedRun:
    run = ImportedRun(
        f"mlflow {facts['run_id']}",
        str(facts["name"] or tags.get(NAME) or facts["run_id"]),
        {key: typed(value) for key, value in params},
        [f"group:{facts['experiment']}"]
        + [f"{key}:{value}" for key, value in tags.items() if not key.startswith("mlflow.")],
        tags.get(NOTE, ""),
        STATES.get(str(facts["status"]), "finished"),
    )
    where = urlsplit(str(facts.get("artifact_uri") or ""))
    folder = (root / unquote(where.path)).resolve()
    if where.scheme not in ("", "file") or not folder.is_relative_to(root.resolve()):
        run.left_out[f"folder of artifacts that is not below {root}"] += 1
    elif where.path and folder.is_dir():
        run.files = folder
    return run


def _texts(root: Path, folder: Path) -> list[tuple[str, str]]:
    """The files below a folder: keys with slashes are in folders of their own."""
    files = files_within(root, folder)
    return [(str(file.relative_to(folder)), file.read_text("utf-8")) for file in files]


def _yaml(root: Path, file: Path) -> dict[str, Any]:
    try:
        import yaml
    except ImportError as error:
        raise NeedsPackage("reading the folder of MLflow needs PyYAML: pip install pyyaml") from error
    if not file.is_file() or not is_within(root, file):
        return {}
    return dict(yaml.safe_load(file.read_text("utf-8")) or {})
