"""Entries of MLflow's operations in the audit log: one for each call of EVERY, one for the first call of ONCE with a token."""

from functools import lru_cache

from webapp.accounts.audit import audit_note, audit_once
from webapp.accounts.models import ApiToken, Project
from webapp.mlflow.models import MlflowExperiment
from webapp.mlflow.protocol import Call, Json
from webapp.runs.models import Run

EVERY = {
    ("POST", "experiments/create"): "experiment.create",
    ("POST", "experiments/update"): "experiment.rename",
    ("POST", "experiments/delete"): "experiment.delete",
    ("POST", "experiments/restore"): "experiment.restore",
    ("POST", "experiments/set-experiment-tag"): "experiment.tag",
    ("POST", "experiments/delete-experiment-tag"): "experiment.untag",
    ("POST", "runs/update"): "run.update",
    ("POST", "runs/set-tag"): "run.tag",
    ("POST", "runs/delete-tag"): "run.untag",
    ("POST", "logged-models"): "model.create",
    ("PATCH", "logged-models/ID"): "model.update",
    ("DELETE", "logged-models/ID"): "model.delete",
    ("POST", "logged-models/ID/params"): "model.params",
    ("PATCH", "logged-models/ID/tags"): "model.tag",
    ("DELETE", "logged-models/ID/tags/KEY"): "model.untag",
}
"""(method, operation) -> act."""
ONCE = (
    "runs/log-metric",
    "runs/log-parameter",
    "runs/log-batch",
    "runs/log-inputs",
    "runs/outputs",
    "runs/log-model",
)
"""Reports of a program: the first one of a token to a run is the act run.report."""
DETAILS = ("key", "value", "new_name", "name", "status", "run_name", "tag_key")
"""Arguments that an entry holds."""
MOST = 200
"""Characters of each."""


def operation_note(call: Call, key: tuple[str, str], answer: Json) -> None:
    """Write the entry of an operation that has succeeded."""
    _, operation = key
    if operation in ONCE and call.user.token:
        _reported(call.user.token, call.run_id)
    if act := EVERY.get(key):
        target, project = _object(call, operation, answer)
        values = {name: str(call.arguments[name])[:MOST] for name in DETAILS if call.arguments.get(name)}
        audit_note(call.user, project, act, target, **values)


def _object(call: Call, operation: str, answer: Json) -> tuple[str, Project]:
    if operation.startswith("runs/"):
        return call.run_id, Project.objects.get(runs=call.run_id)
    if operation.startswith("logged-models"):
        target = str(call.arguments.get("model_id") or answer["model"]["info"]["model_id"])
        return target, Project.objects.get(runs__mlflow__logged_models=target)
    target = str(answer.get("experiment_id") or call.arguments.get("experiment_id"))
    experiments = MlflowExperiment.objects.select_related("project")
    experiment = experiments.filter(pk=int(target)).first() if target != "0" else None
    return target, experiment.project if experiment else call.project


@lru_cache(maxsize=4096)
def _reported(token: ApiToken, run_id: str) -> None:
    """Write the entry of a report. The cache saves two queries for each later report."""
    audit_once(token, Run.objects.select_related("project").get(pk=run_id).project, "run.report", run_id)
