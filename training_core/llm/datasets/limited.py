"""Previews and imports of files whose authors are unknown: each in a process of its own, with limits."""

from copy import deepcopy
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from training_core.errors import DataError
from training_core.limited_process import Limits, call_limited
from training_core.llm.datasets.columns import Columns
from training_core.llm.datasets.importing import Imported, Request, import_data
from training_core.llm.datasets.previews import Preview, PreviewedTask, preview
from training_core.llm.datasets.rows import find_splits

PREVIEW = Limits(memory_mib=1024, cpu_seconds=20.0)
IMPORT = Limits(memory_mib=4096, cpu_seconds=120.0, file_mib=1024)
_REMEDY = "split it, or import it on the server's machine with `troupe data import`, which has no limits"
_REQUEST = TypeAdapter(Request)
_IMPORTED = TypeAdapter(Imported)


def preview_limited(request: Request, *, guess: bool) -> Preview:
    """`preview` in a process with limits. Also raises DataError if a limit is reached, or if `held_out` is not a split of the source."""
    try:
        facts = request.source.stat()
    except OSError as error:
        raise DataError(
            f"there is no file or folder {request.source}:", remedy="name an existing one"
        ) from error
    if request.source.is_dir():  # whose files may change without its date
        return _previewed(request, guess)
    return deepcopy(_cached(request, guess, facts.st_ino, facts.st_size, facts.st_mtime_ns))


def import_limited(name: str, request: Request, home: Path, project: str) -> Imported:
    """`import_data` in a process with limits. Raises DataError in the cases of `preview_limited`, too."""
    arguments = {"name": name, "request": _json(request), "home": str(home), "project": project}
    return _IMPORTED.validate_python(
        call_limited(f"{__name__}:_import", arguments, IMPORT, subject=request.source.name, remedy=_REMEDY)
    )


@lru_cache(maxsize=16)
def _cached(request: Request, guess: bool, *state: int) -> Preview:
    """A preview of a file in one state: the page asks again at each change of its form."""
    return _previewed(request, guess)


def _previewed(request: Request, guess: bool) -> Preview:
    arguments = {"request": _json(request), "guess": guess}
    facts = call_limited(
        f"{__name__}:_preview", arguments, PREVIEW, subject=request.source.name, remedy=_REMEDY
    )
    chosen = facts["chosen"] | {"keep": tuple(facts["chosen"]["keep"])}
    tasks = [PreviewedTask(**task) for task in facts["tasks"]]
    return Preview(**facts | {"chosen": Columns(**chosen), "tasks": tasks})


def _json(request: Request) -> Any:
    return _REQUEST.dump_python(request, mode="json")


def _preview(request: dict[str, Any], guess: bool) -> Any:
    """Runs in the process."""
    wanted = _own(request)
    splits = sorted(filter(None, find_splits(wanted.source)))
    try:
        return asdict(preview(wanted, guess=guess))
    except DataError as error:
        return asdict(Preview(splits, problem=str(error)))


def _import(name: str, request: dict[str, Any], home: str, project: str) -> Any:
    """Runs in the process."""
    return _IMPORTED.dump_python(import_data(name, _own(request), Path(home), project), mode="json")


def _own(fields: dict[str, Any]) -> Request:
    """The request. Raises DataError for held-out tasks of another file."""
    request = _REQUEST.validate_python(fields)
    if request.held_out and request.held_out not in find_splits(request.source):
        raise DataError(
            f"{request.held_out!r} is not a split of {request.source.name}:", remedy="select one of the list"
        )
    return request
