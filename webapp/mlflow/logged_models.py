"""Logged models, in which MLflow's clients from 3.0 on store models: their names, parameters, tags and metrics.

A model belongs to a run, and its files are files of that run below models/ID. `log_model` without an active run names none; the model
then has a run of its own, which has ended.
"""

import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from django.db import transaction

from webapp.accounts.permissions import require_edit
from webapp.accounts.selectors import projects_visible
from webapp.metrics.arrays import spell
from webapp.mlflow.experiments import experiments_named
from webapp.mlflow.models import MlflowModel, MlflowRun
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
from webapp.mlflow.search import MODELS, metrics_on, rows_filter
from workers.provenance.redaction import values_without_secrets

STATUS = ("LOGGED_MODEL_PENDING", "LOGGED_MODEL_READY", "LOGGED_MODEL_UPLOAD_FAILED")
FOLDER = r"models/m-[0-9a-f]{32}/"
"""The files of a model, in its run: a regular expression."""
WRONG = "/:.%\"'"
"""Characters that a name must not have, because it is a part of addresses."""


def model_named(call: Call, model_id: str = "", *, change: bool = False) -> MlflowModel:
    """Return a model, by default that of the arguments; `change` locks its row. Raises MlflowError, PermissionDenied."""
    model_id = model_id or call.text("model_id")
    visible = MlflowModel.objects.filter(run__run__project__in=projects_visible(call.user), archived=False)
    named = visible.select_related("run__run__project").filter(pk=model_id)
    model = (named.select_for_update(of=("self",)) if change else named).first()
    if model is None:
        raise MlflowError.unknown(f"logged model {model_id!r}")
    if change:
        require_edit(call.user, model.run.run.project)
    return model


def model_create(call: Call, run: MlflowRun, *, alone: bool) -> Json:
    """Store the model that a request describes. The caller holds the run's lock, and the user may edit its project."""
    model_id = f"m-{secrets.token_hex(16)}"
    name = call.text("name", "") or model_id
    if len(name) > 500 or any(character in name for character in WRONG):
        raise MlflowError.invalid(f"the name of a model has at most 500 characters, and none of {WRONG}")
    model = MlflowModel.objects.create(
        id=model_id,
        run=run,
        alone=alone,
        name=name,
        model_type=call.text("model_type", "")[:500],
        status=STATUS[0],
        params=bounded(values_without_secrets(unpaired(call.items("params"))), "the parameters of a model"),
        tags=bounded(unpaired(call.items("tags")), "the tags of a model"),
    )
    return {"model": _document(model)}


def metrics_link(call: Call, run_id: str, metrics: Iterable[Mapping[str, Any]]) -> None:
    """Store the latest points on their models. The points are valid. Raises MlflowError, PermissionDenied."""
    of_models: dict[str, list[Json]] = {}
    for metric in metrics:
        if model_id := metric.get("model_id"):
            point = {
                name: metric[name] for name in ("key", "dataset_name", "dataset_digest") if metric.get(name)
            }
            numbers = {"timestamp": int(metric["timestamp"]), "step": int(metric.get("step") or 0)}
            point |= numbers | {
                "value": spell(float(metric["value"])),
                "run_id": run_id,
                "model_id": model_id,
            }
            of_models.setdefault(str(model_id), []).append(point)
    for model_id, points in sorted(of_models.items()):  # sorted: two requests lock rows in the same order
        model = model_named(call, model_id, change=True)
        latest: dict[tuple[Any, ...], Json] = {}
        for point in sorted([*model.metrics, *points], key=lambda point: (point["timestamp"], point["step"])):
            same = tuple(point.get(name) for name in ("key", "dataset_name", "dataset_digest", "run_id"))
            latest.pop(same, None)
            latest[same] = point
        _store(model, metrics=list(reversed(latest.values())))


def _store(model: MlflowModel, **fields: Any) -> Json:
    for name, value in fields.items():
        setattr(model, name, bounded(value, f"the {name} of a model"))
    model.save(update_fields=[*fields, "updated_at"])
    return {}


def _document(model: MlflowModel) -> Json:
    info = {
        "model_id": model.pk,
        "experiment_id": str(model.run.experiment_id),
        "name": model.name,
        "creation_timestamp_ms": milliseconds(model.created_at),
        "last_updated_timestamp_ms": milliseconds(model.updated_at),
        "artifact_uri": f"mlflow-artifacts:/{model.run_id}/artifacts/models/{model.pk}",
        "status": model.status,
        "model_type": model.model_type,
        "tags": pairs(model.tags),
    }
    own = {} if model.alone else {"source_run_id": model.run_id}
    return {"info": info | own, "data": {"params": pairs(model.params), "metrics": model.metrics}}


@transaction.atomic
def _finalize(call: Call) -> Json:
    model, status = model_named(call, change=True), call.text("status")
    if status not in STATUS:
        raise MlflowError.invalid(f"status must be one of {', '.join(STATUS)}")
    _store(model, status=status)
    return {"model": _document(model)}


@transaction.atomic
def _delete(call: Call) -> Json:
    return _store(model_named(call, change=True), archived=True)


def _search(call: Call) -> Json:
    experiments = experiments_named(call, call.items("experiment_ids"))
    rows = MlflowModel.objects.filter(run__experiment__in=experiments, archived=False).select_related("run")
    datasets, orders = call.items("datasets"), call.items("order_by")
    if not all(isinstance(item, dict) for item in [*datasets, *orders]):
        raise MlflowError.invalid("datasets and order_by are lists of objects")
    if not all(item.get("dataset_name") for item in datasets):
        raise MlflowError.invalid("each of the datasets has a dataset_name")
    fields: dict[str, Any] = {**MODELS, "metrics": metrics_on(datasets)}
    order_by = []
    for number, item in enumerate(orders):  # each of them may name a data set of its own
        kind, _, key = str(item.get("field_name")).partition(".")
        if key and kind == "metrics":
            kind = f"metrics{number}"
            fields[kind] = metrics_on([item] if item.get("dataset_name") else datasets)
        order_by.append(
            f"{f'{kind}.`{key}`' if key else kind} {'desc' if item.get('ascending') is False else 'asc'}"
        )
    search = Call(call.user, {**call.arguments, "order_by": order_by}, call.slug)
    models, following = search.page(rows_filter(search, rows, fields, "-created_at"))
    return {"models": [_document(model) for model in models]} | following


@transaction.atomic
def _tag(call: Call, *, remove: bool = False) -> Json:
    model = model_named(call, change=True)
    if not remove:
        return _store(model, tags=model.tags | unpaired(call.items("tags")))
    key = call.text("tag_key")
    if key not in model.tags:
        raise MlflowError.unknown(f"tag {key!r}")
    return _store(model, tags={name: value for name, value in model.tags.items() if name != key})


@transaction.atomic
def _params(call: Call) -> Json:
    model = model_named(call, change=True)
    return _store(model, params=model.params | values_without_secrets(unpaired(call.items("params"))))


OPERATIONS: Operations = {
    ("POST", "logged-models/search"): _search,
    ("GET", "logged-models/ID"): lambda call: {"model": _document(model_named(call))},
    ("PATCH", "logged-models/ID"): _finalize,
    ("DELETE", "logged-models/ID"): _delete,
    ("POST", "logged-models/ID/params"): _params,
    ("PATCH", "logged-models/ID/tags"): _tag,
    ("DELETE", "logged-models/ID/tags/KEY"): lambda call: _tag(call, remove=True),
}
