"""The page that imports a data set of others as tasks: its source, its columns, and what the agents will see."""

import filecmp
import re
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from training_core.errors import ConfigError, DataError
from training_core.llm.datasets.columns import Columns
from training_core.llm.datasets.importing import (
    EVAL_SHARE,
    NAME,
    Imported,
    Request,
    check_options,
    data_folder,
    import_data,
)
from training_core.llm.datasets.previews import guess_columns, preview
from training_core.llm.datasets.rows import SUFFIXES, find_splits
from webapp.accounts.audit import audit_note
from webapp.accounts.selectors import projects_editable
from webapp.common.formats import size

UPLOADS = "uploads"
"""Folder below TROUPE_HOME/data for files from browsers."""
LARGEST = 256_000_000
"""Maximum size of an upload in bytes."""
MOST_SOURCES = 200
COLUMNS = ("question", "answer", "tests", "solution", "id")
PRESETS = {"dataset": "qwen3_math_single", "coding": "qwen3_coding"}
"""The preset whose form opens with the imported tasks, by their environment."""


@require_http_methods(["GET", "POST"])
def data_page(request: HttpRequest) -> HttpResponse:
    """Show the form; htmx gets the preview alone. A POST uploads a file, or imports the tasks."""
    if request.method == "GET":
        template = (
            "experiments/_data_preview.html" if request.headers.get("HX-Request") else "experiments/data.html"
        )
        return _page(request, request.GET.dict(), template)
    values = {name: value for name, value in request.POST.dict().items() if name != "csrfmiddlewaretoken"}
    if not projects_editable(request.user).exists():
        raise PermissionDenied("only editors of a project import data")
    try:
        if isinstance(file := request.FILES.get("upload"), UploadedFile):
            source = _upload(file)
            audit_note(request.user, None, "data.upload", source)
            return redirect(f"{reverse('experiments:data')}?{urlencode({'source': source})}")
        result = import_data(values.get("name", ""), read_request(values), settings.TROUPE_HOME)
    except (ConfigError, DataError) as error:
        return _page(request, values, "experiments/data.html", str(error))
    audit_note(request.user, None, "data.import", result.name, tasks=result.train, held_out=result.held_out)
    messages.success(request, _summary(result))
    query = {"preset": PRESETS[result.environment], **result.settings}
    return redirect(f"{reverse('experiments:new')}?{urlencode(query)}")


def _page(request: HttpRequest, values: dict[str, str], template: str, error: str = "") -> HttpResponse:
    context: dict[str, Any] = {"place": "new", "values": values, "form_error": error, "sources": sources()}
    if values.get("source"):
        try:
            context |= _previewed(values)
        except (ConfigError, DataError) as refused:
            context["form_error"] = error or str(refused)
    context |= {
        "can_import": projects_editable(request.user).exists(),
        "share": EVAL_SHARE,
        "largest": size(LARGEST),
        "accepted": ",".join(SUFFIXES),
    }
    return render(request, template, context, status=400 if error else 200)


def _previewed(values: dict[str, str]) -> dict[str, Any]:
    """The context of a source. Columns that are not chosen yet are guessed. Raises ConfigError, DataError."""
    request = read_request(values)
    splits = sorted(filter(None, find_splits(request.source)))
    try:
        seen = preview(request)
    except DataError as error:  # the splits stay, so that another one can be chosen
        return {"splits": splits, "form_error": str(error)}
    values.setdefault("name", re.sub(r"[^\w.-]+", "-", request.source.stem).strip("-.") or "tasks")
    if "question" not in values:
        guessed = guess_columns(seen.columns)
        values |= {name: getattr(guessed, name) for name in COLUMNS}
        others = [name for name in splits if name != "train"] if "train" in splits else []
        values.setdefault("eval", others[0] if others else "")
        seen = preview(read_request(values))
    chosen = [(name, values.get(name, "")) for name in COLUMNS]
    context = {"seen": seen, "splits": splits, "chosen": chosen, "command": _command(values)}
    try:
        check_options(read_request(values))
    except DataError as error:
        context["form_error"] = str(error)
    return context


def read_request(values: dict[str, str]) -> Request:
    """The request of the form's values. Raises ConfigError for a source outside of TROUPE_HOME/data, DataError."""
    source = source_path(values.get("source", ""))
    if (held_out := values.get("eval", "")) and held_out not in find_splits(source):
        raise ConfigError(
            {"eval": f"{held_out!r} is not a split of {values['source']}"}, remedy="select one of the list"
        )
    answer, tests, solution, task_id = (values.get(name, "") for name in COLUMNS[1:])
    question = values.get("question") or Columns.question
    columns = Columns(question, answer, tests, solution, task_id, tuple(_kept(values)))
    return Request(
        source,
        columns,
        split=values.get("split", ""),
        held_out=held_out,
        skip_invalid="skip_invalid" in values,
        drop_shared="drop_shared" in values,
    )


def _kept(values: dict[str, str]) -> list[str]:
    return values.get("keep", "").replace(",", " ").split()


def source_path(text: str) -> Path:
    """A file or folder below TROUPE_HOME/data. Raises ConfigError for another one."""
    folder = data_folder(settings.TROUPE_HOME).resolve()
    path = (folder / text.replace("\0", "")).resolve()
    if not text or not path.is_relative_to(folder) or path == folder:
        raise ConfigError({"source": f"{text!r} is not below {folder}"}, remedy="move it there, or upload it")
    return path


def sources() -> list[str]:
    """Files and folders of the data folder that may be data sets, for the list of suggestions."""
    folder = data_folder(settings.TROUPE_HOME)
    entries = [*folder.glob("*"), *(folder / UPLOADS).glob("*")]
    named = (
        str(path.relative_to(folder))
        for path in sorted(entries)
        if not path.name.startswith(".")
        and path.name != UPLOADS
        and (path.is_dir() or path.suffix in SUFFIXES)
    )
    return list(named)[:MOST_SOURCES]


def _upload(file: "UploadedFile[Any]") -> str:
    """Store a file of the browser; returns its source. Raises ConfigError."""
    name = re.sub(r"[^\w.-]+", "-", file.name or "").lstrip(".-")[-80:]
    if not NAME.fullmatch(name) or Path(name).suffix not in SUFFIXES:
        raise ConfigError(
            {"file": f"{file.name!r} is none of {', '.join(SUFFIXES)}"}, remedy="convert it to JSON Lines"
        )
    if (file.size or 0) > LARGEST:
        raise ConfigError(
            {"file": f"{size(file.size or 0)} are more than {size(LARGEST)}"},
            remedy=f"copy the file to {data_folder(settings.TROUPE_HOME)} and name it as source",
        )
    path = data_folder(settings.TROUPE_HOME) / UPLOADS / name
    draft = path.with_name(f".{name}.{uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as out:
            out.writelines(file.chunks())
        if path.exists() and not filecmp.cmp(draft, path, shallow=False):
            raise ConfigError({"file": f"there is another file {name} already"}, remedy="rename yours")
        draft.replace(path)
    except OSError as error:
        raise ConfigError(
            {"file": f"{name} cannot be stored: {error}"}, remedy="free space on the server"
        ) from error
    finally:
        draft.unlink(missing_ok=True)
    return f"{UPLOADS}/{name}"


def _summary(result: Imported) -> str:
    left = {"repeated": result.duplicates, "held out": result.shared, "invalid": result.invalid}
    counted = ", ".join(f"{count} {what}" for what, count in left.items() if count)
    return (
        f"Imported {result.train:,} tasks for training and {result.held_out:,} for evaluation as {result.name}"
        f"{f' (left out: {counted})' if counted else ''}. The form below uses them."
    )


def _command(values: dict[str, str]) -> str:
    """The same import as a command."""
    words = [
        "troupe data import",
        shlex.quote(str(source_path(values["source"]))),
        shlex.quote(values["name"]),
    ]
    options = [(f"--{name}", values.get(name, "")) for name in (*COLUMNS, "split", "eval")]
    words += [f"{option} {shlex.quote(value)}" for option, value in options if value]
    words += [f"--keep {shlex.quote(name)}" for name in _kept(values)]
    words += [f"--{name.replace('_', '-')}" for name in ("skip_invalid", "drop_shared") if name in values]
    return " \\\n  ".join(words)
