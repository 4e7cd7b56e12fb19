"""Experiments of MLflow: sets of runs in a project. The experiment 0 is the project's own, Default."""

from collections.abc import Iterable
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet

from webapp.accounts.permissions import can_edit, require_edit
from webapp.accounts.selectors import projects_visible
from webapp.mlflow.models import MlflowExperiment
from webapp.mlflow.protocol import (
    Call,
    Json,
    MlflowError,
    Operations,
    bounded,
    milliseconds,
    pairs,
    unpaired,
)
from webapp.mlflow.search import EXPERIMENTS, rows_filter

DEFAULT = "Default"
"""Name of the experiment of runs that name none."""
VIEWS: dict[str, dict[str, bool]] = {
    "ACTIVE_ONLY": {"archived": False},
    "DELETED_ONLY": {"archived": True},
    "ALL": {},
}


def experiments_named(call: Call, ids: Iterable[Any]) -> QuerySet[MlflowExperiment]:
    """Return those of these experiments that are visible to the user."""
    texts = [text for text in map(str, ids) if text.isascii() and text.isdecimal() and len(text) < 19]
    chosen = Q(pk__in=list(map(int, texts)))
    if "0" in texts:
        chosen |= Q(project=call.project, name=DEFAULT)
    return MlflowExperiment.objects.filter(chosen, project__in=projects_visible(call.user))


def experiment_get(call: Call, wanted: str, *, change: bool = False) -> MlflowExperiment:
    """Return an experiment by its id; `change` locks its row. Raises MlflowError, PermissionDenied."""
    if wanted == "0" and can_edit(call.user, call.project):
        MlflowExperiment.objects.get_or_create(project=call.project, name=DEFAULT)
    named = experiments_named(call, [wanted]).select_related("project")
    experiment = (named.select_for_update(of=("self",)) if change else named).first()
    if experiment is None:
        raise MlflowError.unknown(f"experiment {wanted!r}")
    if change:
        require_edit(call.user, experiment.project)
    return experiment


def _document(experiment: MlflowExperiment) -> Json:
    return {
        "experiment_id": str(experiment.pk),
        "name": experiment.name,
        "artifact_location": "mlflow-artifacts:/",
        "lifecycle_stage": "deleted" if experiment.archived else "active",
        "creation_time": milliseconds(experiment.created_at),
        "last_update_time": milliseconds(experiment.updated_at),
        "tags": pairs(experiment.tags),
    }


def _create(call: Call) -> Json:
    project, tags = call.project, unpaired(call.items("tags"))
    require_edit(call.user, project)
    return {
        "experiment_id": str(_store(MlflowExperiment(project=project, name=call.text("name"), tags=tags)).pk)
    }


def _store(experiment: MlflowExperiment) -> MlflowExperiment:
    if not 0 < len(experiment.name) <= 500:
        raise MlflowError.invalid("the name of an experiment has 1 to 500 characters")
    bounded(experiment.tags, "the tags of an experiment")
    try:
        with transaction.atomic():
            experiment.save()
    except IntegrityError as error:
        raise MlflowError(
            "RESOURCE_ALREADY_EXISTS", f"experiment {experiment.name!r} already exists"
        ) from error
    return experiment


def _get(call: Call) -> Json:
    return {"experiment": _document_of(call, call.text("experiment_id"))}


def _document_of(call: Call, wanted: str) -> Json:
    """Return the document of an experiment. Default is there for its readers before a run creates it."""
    experiment = experiments_named(call, [wanted]).first()
    if experiment is None and wanted == "0":
        project = call.project
        times = {"created_at": project.created_at, "updated_at": project.created_at}
        experiment = MlflowExperiment(pk=0, project=project, name=DEFAULT, **times)
    if experiment is None:
        raise MlflowError.unknown(f"experiment {wanted!r}")
    return _document(experiment)


def _get_by_name(call: Call) -> Json:
    name = call.text("experiment_name")
    experiment = MlflowExperiment.objects.filter(project=call.project, name=name).first()
    if experiment is None and name != DEFAULT:
        raise MlflowError.unknown(f"experiment {name!r}")
    return {"experiment": _document(experiment) if experiment else _document_of(call, "0")}


def _search(call: Call) -> Json:
    view = VIEWS.get(call.text("view_type", "ACTIVE_ONLY"), {})
    listed = MlflowExperiment.objects.filter(project=call.project, **view)
    rows, following = call.page(rows_filter(call, listed, EXPERIMENTS, "-updated_at"))
    return {"experiments": [_document(row) for row in rows]} | following


def _active(call: Call) -> MlflowExperiment:
    """Return the experiment of the arguments, locked. Raises MlflowError if it is deleted."""
    experiment = experiment_get(call, call.text("experiment_id"), change=True)
    if experiment.archived:
        raise MlflowError.invalid(f"the experiment {experiment.name!r} is deleted; restore it first")
    return experiment


@transaction.atomic
def _rename(call: Call) -> Json:
    _active(call)
    return _change(call, name=call.text("new_name"))


@transaction.atomic
def _change(call: Call, **fields: object) -> Json:
    experiment = experiment_get(call, call.text("experiment_id"), change=True)
    for name, value in fields.items():
        setattr(experiment, name, value)
    _store(experiment)
    return {}


@transaction.atomic
def _tag(call: Call, *, remove: bool = False) -> Json:
    experiment, key = _active(call), call.text("key")
    if remove and key not in experiment.tags:
        raise MlflowError.unknown(f"tag {key!r}")
    tags = {name: value for name, value in experiment.tags.items() if name != key}
    return _change(call, tags=tags if remove else tags | {key: call.text("value", "")})


OPERATIONS: Operations = {
    ("POST", "experiments/create"): _create,
    ("GET", "experiments/get"): _get,
    ("GET", "experiments/get-by-name"): _get_by_name,
    ("GET", "experiments/search"): _search,
    ("POST", "experiments/search"): _search,
    ("POST", "experiments/update"): _rename,
    ("POST", "experiments/delete"): lambda call: _change(call, archived=True),
    ("POST", "experiments/restore"): lambda call: _change(call, archived=False),
    ("POST", "experiments/set-experiment-tag"): _tag,
    ("POST", "experiments/delete-experiment-tag"): lambda call: _tag(call, remove=True),
}
