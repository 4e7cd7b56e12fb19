"""Experiments of MLflow: sets of runs in a project. The experiment 0 is the project's own, Default."""

from django.db import IntegrityError, transaction

from webapp.accounts.permissions import can_edit, require_edit
from webapp.accounts.selectors import projects_visible
from webapp.mlflow.models import MlflowExperiment
from webapp.mlflow.protocol import Call, Json, MlflowError, Operations, milliseconds, pairs, unpaired
from webapp.mlflow.search import EXPERIMENTS, rows_filter

DEFAULT = "Default"
"""Name of the experiment of runs that name none."""
VIEWS: dict[str, dict[str, bool]] = {
    "ACTIVE_ONLY": {"archived": False},
    "DELETED_ONLY": {"archived": True},
    "ALL": {},
}


def experiment_get(call: Call, wanted: str) -> MlflowExperiment:
    """Return an experiment by its id. Raises MlflowError."""
    if wanted == "0" and can_edit(call.user, call.project):
        return MlflowExperiment.objects.get_or_create(project=call.project, name=DEFAULT)[0]
    number = int(wanted) if wanted.isascii() and wanted.isdecimal() and len(wanted) < 19 else 0
    visible = MlflowExperiment.objects.filter(project__in=projects_visible(call.user))
    experiment = visible.filter(pk=number).select_related("project").first()
    if experiment is None:
        raise MlflowError.unknown(f"experiment {wanted!r}")
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
    try:
        with transaction.atomic():
            experiment.save()
    except IntegrityError as error:
        raise MlflowError(
            "RESOURCE_ALREADY_EXISTS", f"experiment {experiment.name!r} already exists"
        ) from error
    return experiment


def _get(call: Call) -> Json:
    return {"experiment": _document(experiment_get(call, call.text("experiment_id")))}


def _get_by_name(call: Call) -> Json:
    name = call.text("experiment_name")
    experiment = MlflowExperiment.objects.filter(project=call.project, name=name).first()
    if experiment is None and name != DEFAULT:
        raise MlflowError.unknown(f"experiment {name!r}")
    return {"experiment": _document(experiment or experiment_get(call, "0"))}


def _search(call: Call) -> Json:
    view = VIEWS.get(call.text("view_type", "ACTIVE_ONLY"), {})
    listed = MlflowExperiment.objects.filter(project=call.project, **view)
    rows, following = call.page(rows_filter(call, listed, EXPERIMENTS, "-updated_at"))
    return {"experiments": [_document(row) for row in rows]} | following


def _change(call: Call, **fields: object) -> Json:
    experiment = experiment_get(call, call.text("experiment_id"))
    require_edit(call.user, experiment.project)
    for name, value in fields.items():
        setattr(experiment, name, value)
    _store(experiment)
    return {}


def _tag(call: Call, *, remove: bool = False) -> Json:
    tags, key = dict(experiment_get(call, call.text("experiment_id")).tags), call.text("key")
    if remove and key not in tags:
        raise MlflowError.unknown(f"tag {key!r}")
    tags.pop(key, None)
    return _change(call, tags=tags if remove else tags | {key: call.text("value", "")})


OPERATIONS: Operations = {
    ("POST", "experiments/create"): _create,
    ("GET", "experiments/get"): _get,
    ("GET", "experiments/get-by-name"): _get_by_name,
    ("GET", "experiments/search"): _search,
    ("POST", "experiments/search"): _search,
    ("POST", "experiments/update"): lambda call: _change(call, name=call.text("new_name")),
    ("POST", "experiments/delete"): lambda call: _change(call, archived=True),
    ("POST", "experiments/restore"): lambda call: _change(call, archived=False),
    ("POST", "experiments/set-experiment-tag"): _tag,
    ("POST", "experiments/delete-experiment-tag"): lambda call: _tag(call, remove=True),
}
