"""Runs of Weights & Biases from the files of its offline mode: `run-ID.wandb`, with the files of media below `files` next to it.

Such a file has records in W&B's protocol buffers, which the package `wandb` defines, in the framing of LevelDB's log
(https://github.com/google/leveldb/blob/main/doc/log_format.md) with another start and checksum. The package reads it in a program of
its own, wandb-core, and no longer in Python.
"""

import json
import logging
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from training_core.errors import TroupeError
from troupe_client.reporting.importing import (
    ImportedRun,
    NeedsPackage,
    Skipped,
    files_within,
    read_each,
)
from troupe_client.reporting.wandb_axes import Axes
from troupe_client.reporting.wandb_values import (
    LEVELS,
    MARK,
    Values,
    config_of,
    crossing,
    identity_of,
    summary_rest,
    tags_of,
)
from workers.reporting.encoding import encode

logger = logging.getLogger("troupe")
START = b":W&B\xe1\xbe"
"""First bytes of a file; a byte with the version follows."""
BLOCK = 32768
PART = struct.Struct("<IHB")
"""Head of a part of a record: checksum, size, and whether it is the whole record, or its first, middle or last part."""
WHOLE, LAST = 1, 4
COUNTED = {"artifact", "output", "output_raw", "stats", "use_artifact"}
"""Kinds of records that are not imported, and are counted."""


def runs_of(path: Path, skipped: Skipped | None = None) -> Iterator[ImportedRun]:
    """Yield the runs of a file, or of the files below a folder. Those that `troupe.sync_wandb` has mirrored are left out.

    The files of one run, which W&B has resumed, are its attempts. `skipped` receives the files that cannot be read, with the reasons.
    Raises TroupeError without the package `wandb`.
    """
    by_id: dict[str, list[Path]] = {}
    for file in files_within(path, path, "run-*.wandb") if path.is_dir() else [path]:
        if (mark := file.parent / MARK).exists():
            logger.warning("%s is not imported: run %s has mirrored it", file, mark.read_text())
        else:
            by_id.setdefault(file.name, []).append(file)
    for files in by_id.values():
        parts: dict[str, list[ImportedRun]] = {}
        for run in sorted(read_each(files, _part_of, skipped), key=lambda run: run.written):
            parts.setdefault(run.identity, []).append(run)
        for first, *later in parts.values():
            for part in later:
                first.config |= part.config
            first.later, first.damage = (
                later,
                "; ".join(filter(None, (part.damage for part in [first, *later]))),
            )
            first.left_out = sum((part.left_out for part in later), first.left_out)
            yield first


def _part_of(file: Path) -> ImportedRun | None:
    run = OfflineRun(file)
    return run.imported() if run.identity else None


class Damaged(Exception):
    """A file is damaged; what precedes is read."""


class OfflineRun:
    """A run of W&B, read from its file. `identity` is empty if the file does not describe a run."""

    def __init__(self, file: Path) -> None:
        self.identity = ""
        self._axes = Axes()
        self._folder = file.parent / "files"
        self._facts: Any = None
        self._config: Values = {}
        self._summary: Values = {}
        self._logged: Values = {}
        self._code: int | None = None
        self._run = ImportedRun("", "")
        kinds: dict[str, Callable[[Any, Path], object]] = {
            "run": self._begin,
            "config": lambda config, _: update(self._config, config),
            "summary": lambda summary, _: update(self._summary, summary),
            "history": self._history,
            "alert": self._alert,
            "exit": self._exit,
            "metric": lambda metric, _: self._axes.define(
                metric.name or metric.glob_name, metric.step_metric
            ),
        }
        try:
            for record in records_of(file):
                kind = record.WhichOneof("record_type")
                if kind in kinds:
                    kinds[kind](getattr(record, kind), file)
                elif kind in COUNTED:
                    self._run.left_out[f"record {kind}"] += 1
        except Damaged as error:
            self._run.damage = f"{file} {error}"
            logger.warning("%s", self._run.damage)

    def imported(self) -> ImportedRun:
        """The run, as far as the file has it. The summary is complete, and counts, at the end."""
        run, facts = self._run, self._facts
        run.identity, run.name, run.notes = self.identity, facts.display_name or facts.run_id, facts.notes
        run.written = facts.start_time.seconds + facts.start_time.nanos / 1e9
        run.config = config_of(self._config)
        run.tags = tags_of(facts.project, facts.job_type, facts.tags)
        run.tags += [f"group:{facts.run_group}"] if facts.run_group else []
        run.state = "running" if self._code is None else "failed" if self._code else "finished"
        if self._code is not None and (rest := summary_rest(self._summary, self._logged)):
            run.add("summary", run.last, rest, self._written)
        return run

    def _begin(self, run: Any, _: Path) -> None:
        self._facts, self._written = run, run.start_time.seconds + run.start_time.nanos / 1e9
        self.identity = identity_of(run.project, run.run_id)
        update(self._config, run.config)

    def _history(self, history: Any, _: Path) -> None:
        values: Values = {}
        update(values, history, items=history.item)
        self._written = float(values.get("_timestamp", self._written))
        left_out: dict[str, str] = {}
        flat = crossing(values, self._folder, left_out)
        self._run.left_out.update(left_out.values())
        self._logged |= flat
        for step, some in self._axes.split(flat, int(values.get("_step", history.step.num))).items():
            self._run.add("history", step, some, self._written)

    def _alert(self, alert: Any, _: Path) -> None:
        line = {"type": "log", "level": LEVELS.get(alert.level, "info"), "source": "alert"}
        line |= {"message": f"{alert.title}: {alert.text}", "time": self._written}
        self._run.events.setdefault("history", []).append(encode(line))

    def _exit(self, end: Any, _: Path) -> None:
        self._code = end.exit_code


def update(values: Values, record: Any, items: Iterable[Any] | None = None) -> None:
    """Apply the changes of a record to nested values."""
    for item in record.update if items is None else items:
        *above, last = item.nested_key or (item.key,)
        inner = values
        for key in above:
            if not isinstance(inner.get(key), dict):
                inner[key] = {}
            inner = inner[key]
        inner[last] = json.loads(item.value_json)
    for item in getattr(record, "remove", ()):
        values.pop(item.key or item.nested_key[0], None)


def records_of(file: Path) -> Iterator[Any]:
    """Yield the records of a file, up to one that is incomplete, because the program still writes it or was killed.

    Raises TroupeError for a file of another format, Damaged.
    """
    try:
        from wandb.proto import wandb_internal_pb2 as buffers
    except ImportError as error:
        raise NeedsPackage("reading files of W&B needs its package: pip install wandb") from error
    parse = vars(buffers)["Record"].FromString
    data = file.read_bytes()
    if not data:
        raise TroupeError(f"{file} is empty: its program has only begun")
    if not data.startswith(START):
        raise TroupeError(f"{file} is not a file of W&B's offline mode")
    at, record = len(START) + 1, b""
    while at + PART.size <= len(data):
        if (left := BLOCK - at % BLOCK) < PART.size:
            at += left
            continue
        checksum, size, kind = PART.unpack_from(data, at)
        part = data[at + PART.size : at + PART.size + size]
        if zlib.crc32(part, zlib.crc32(bytes([kind]))) != checksum:
            if len(part) == size:
                raise Damaged(f"is damaged at byte {at:,} of {len(data):,}; what follows is not imported")
            return
        at += PART.size + size
        record += part
        if kind in (WHOLE, LAST):
            try:
                parsed = parse(record)
            except Exception as error:  # DecodeError of a package that W&B brings
                raise Damaged(f"has a record before byte {at:,} that cannot be read: {error}") from error
            yield parsed
            record = b""
