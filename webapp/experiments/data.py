"""The page that imports a data set of others as tasks: its source, its columns, and what the agents will see.

A data set belongs to a project. Its files are parsed in a process of their own (training_core/llm/datasets/limited.py).
"""

import filecmp
import re
import shlex
from collections.abc import Mapping
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
from training_core.llm.datasets.folders import NAME, PROJECTS, UPLOADS, data_folder, project_path
from training_core.llm.datasets.importing import EVAL_SHARE, Imported, Request, check_options
from training_core.llm.datasets.limited import import_limited, preview_limited
from training_core.llm.datasets.rows import SUFFIXES
from webapp.accounts.audit import audit_note
from webapp.accounts.models import Project
from webapp.accounts.permissions import Person, require_edit
from webapp.accounts.selectors import project_chosen, project_get, projects_editable, projects_visible
from webapp.accounts.services import DEFAULT_PROJECT
from webapp.common.formats import size
from webapp.runs.configs import data_project

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
    project = _target(request.user, values)
    try:
        if isinstance(file := request.FILES.get("upload"), UploadedFile):
            source = _upload(file, project)
            audit_note(request.user, project, "data.upload", source)
            query = {"source": source, "project": project.slug}
            return redirect(f"{reverse('experiments:data')}?{urlencode(query)}")
        wanted = read_request(request.user, values)
        result = import_limited(values.get("name", ""), wanted, settings.TROUPE_HOME, project.slug)
    except (ConfigError, DataError) as error:
        return _page(request, values, "experiments/data.html", str(error))
    audit_note(
        request.user, project, "data.import", result.name, tasks=result.train, held_out=result.held_out
    )
    messages.success(request, _summary(result))
    query = {"preset": PRESETS[result.environment], **result.settings}
    return redirect(f"{reverse('experiments:new')}?{urlencode(query)}")


def _target(user: Person, values: Mapping[str, str]) -> Project:
    """Return the project that gets the data: the chosen one, or that of the source, or the default of the user's runs.

    Raises Http404, PermissionDenied.
    """
    source = values.get("source", "")
    owner = projects_editable(user).filter(slug=data_project(source)).first() if source else None
    if not values.get("project") and owner:
        return owner
    if not projects_editable(user).exists():
        raise PermissionDenied("only editors of a project import data")
    project = project_chosen(user, values.get("project", ""))
    require_edit(user, project)
    return project


def _page(request: HttpRequest, values: dict[str, str], template: str, error: str = "") -> HttpResponse:
    editable = list(projects_editable(request.user))
    context: dict[str, Any] = {"place": "new", "values": values, "form_error": error, "editable": editable}
    if editable:
        values["project"] = _target(request.user, values).slug
    if values.get("source"):
        try:
            context |= _previewed(request.user, values)
        except (ConfigError, DataError) as refused:
            context["form_error"] = error or str(refused)
    context |= {
        "sources": sources(request.user),
        "share": EVAL_SHARE,
        "largest": size(LARGEST),
        "accepted": ",".join(SUFFIXES),
    }
    return render(request, template, context, status=400 if error else 200)


def _previewed(user: Person, values: dict[str, str]) -> dict[str, Any]:
    """The context of a source. Columns that are not chosen yet are guessed. Raises Http404, ConfigError, DataError."""
    request = read_request(user, values)
    guess = "question" not in values
    seen = preview_limited(request, guess=guess)
    values.setdefault("name", re.sub(r"[^\w.-]+", "-", request.source.stem).strip("-.") or "tasks")
    if guess and seen.columns:
        values |= {name: getattr(seen.chosen, name) for name in COLUMNS}
        others = [name for name in seen.splits if name != "train"] if "train" in seen.splits else []
        values.setdefault("eval", others[0] if others else "")
    if seen.problem:  # the splits stay, so that another one can be chosen
        return {"splits": seen.splits, "form_error": seen.problem}
    chosen = [(name, values.get(name, "")) for name in COLUMNS]
    context = {"seen": seen, "splits": seen.splits, "chosen": chosen, "command": _command(request, values)}
    try:
        check_options(read_request(user, values))
    except DataError as error:
        context["form_error"] = str(error)
    return context


def read_request(user: Person, values: Mapping[str, str]) -> Request:
    """The request of the form's values. Raises Http404 for data of another project, ConfigError for a source outside of the folder."""
    answer, tests, solution, task_id = (values.get(name, "") for name in COLUMNS[1:])
    question = values.get("question") or Columns.question
    columns = Columns(question, answer, tests, solution, task_id, tuple(_kept(values)))
    return Request(
        source_path(user, values.get("source", "")),
        columns,
        split=values.get("split", ""),
        held_out=values.get("eval", ""),
        skip_invalid="skip_invalid" in values,
        drop_shared="drop_shared" in values,
    )


def _kept(values: Mapping[str, str]) -> list[str]:
    return values.get("keep", "").replace(",", " ").split()


def source_path(user: Person, text: str) -> Path:
    """A file or folder below TROUPE_HOME/data. Raises Http404 for one of another project, ConfigError for one outside of the folder."""
    folder = data_folder(settings.TROUPE_HOME).resolve()
    path = (folder / text.replace("\0", "")).resolve()
    if not text or not path.is_relative_to(folder) or path == folder:
        raise ConfigError({"source": f"{text!r} is not below {folder}"}, remedy="move it there, or upload it")
    project_get(user, data_project(str(path.relative_to(folder))))
    return path


def sources(user: Person) -> list[str]:
    """Files and folders of the user's projects that may be data sets, for the list of suggestions."""
    folder, named = data_folder(settings.TROUPE_HOME), []
    for project in projects_visible(user):
        folders = [
            folder / project_path(project.slug),
            *([folder] if project.slug == DEFAULT_PROJECT else []),
        ]
        for parent in folders:
            entries = [*sorted(parent.glob("*")), *sorted((parent / UPLOADS).glob("*"))]
            named += [str(path.relative_to(folder)) for path in entries if _is_source(path)]
    return named[:MOST_SOURCES]


def _is_source(path: Path) -> bool:
    plain = not path.name.startswith(".") and path.name not in (UPLOADS, PROJECTS)
    return plain and (path.is_dir() or path.suffix in SUFFIXES)


def _upload(file: "UploadedFile[Any]", project: Project) -> str:
    """Store a file of the browser in a project; returns its source. Raises ConfigError."""
    name = re.sub(r"[^\w.-]+", "-", file.name or "").lstrip(".-")[-80:]
    if not NAME.fullmatch(name) or Path(name).suffix not in SUFFIXES:
        raise ConfigError(
            {"file": f"{file.name!r} is none of {', '.join(SUFFIXES)}"}, remedy="convert it to JSON Lines"
        )
    folder = data_folder(settings.TROUPE_HOME) / project_path(project.slug)
    if (file.size or 0) > LARGEST:
        raise ConfigError(
            {"file": f"{size(file.size or 0)} are more than {size(LARGEST)}"},
            remedy=f"copy the file to {folder} and name it as source",
        )
    path = folder / UPLOADS / name
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
    return f"{project_path(project.slug)}/{UPLOADS}/{name}"


def _summary(result: Imported) -> str:
    left = {"repeated": result.duplicates, "held out": result.shared, "invalid": result.invalid}
    counted = ", ".join(f"{count} {what}" for what, count in left.items() if count)
    return (
        f"Imported {result.train:,} tasks for training and {result.held_out:,} for evaluation as {result.name}"
        f"{f' (left out: {counted})' if counted else ''}. The form below uses them."
    )


def _command(request: Request, values: Mapping[str, str]) -> str:
    """The same import as a command."""
    words = ["troupe data import", shlex.quote(str(request.source)), shlex.quote(values["name"])]
    options = [(f"--{name}", values.get(name, "")) for name in (*COLUMNS, "split", "eval", "project")]
    words += [f"{option} {shlex.quote(value)}" for option, value in options if value]
    words += [f"--keep {shlex.quote(name)}" for name in _kept(values)]
    words += [f"--{name.replace('_', '-')}" for name in ("skip_invalid", "drop_shared") if name in values]
    return " \\\n  ".join(words)
