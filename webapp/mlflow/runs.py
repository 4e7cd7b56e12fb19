"""Runs of MLflow. They are runs of custom programs: created, stored and ended by the services of Troupe's own client."""

import hashlib
import re
import secrets
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import orjson
from django.db import transaction
from django.db.models import QuerySet

from troupe_client.documents import descriptions
from troupe_client.documents.launches import ClientRunBody, typed
from troupe_client.documents.runs import RunNoteBody
from webapp.accounts.models import Project
from webapp.accounts.permissions import Level, level_of, require_edit
from webapp.accounts.selectors import projects_visible
from webapp.artifacts.contents import content_path
from webapp.artifacts.models import ArtifactFile
from webapp.common.compiled import CompiledQuery
from webapp.ingest.services import events_append
from webapp.metrics.arrays import spell
from webapp.metrics.models import Series
from webapp.metrics.selectors import points_read
from webapp.mlflow.experiments import DEFAULT, VIEWS, experiment_get, experiments_named
from webapp.mlflow.logged_models import metrics_link, model_create
from webapp.mlflow.models import MlflowRun
from webapp.mlflow.protocol import (
    Call,
    Json,
    MlflowError,
    Operations,
    bounded,
    milliseconds,
    moment_of,
    pairs,
    shortened,
    unpaired,
)
from webapp.mlflow.search import RUNS, STATUS, rows_filter
from webapp.runs.lifecycle import run_locked
from webapp.runs.models import INACTIVE_STATES, Run, RunNote, new_run_id
from webapp.runs.notes import run_note_add, run_note_remove
from webapp.scheduling.client_runs import client_run_begin, client_run_configure
from webapp.scheduling.services import run_do
from workers.provenance.redaction import values_without_secrets, without_secrets
from workers.telemetry.events import HeartbeatEvent, ImageMedia, MediaEvent, MetricsEvent, StatusEvent
from workers.telemetry.limits import MAX_IMAGE, MAX_NAME, NAME_FIRST, NAME_REST, image_type

NAME, NOTE, USER, SOURCE = "mlflow.runName", "mlflow.note.content", "mlflow.user", "mlflow.source"
LONGEST_NOTE = 4000
MODELS = "mlflow.log-model.history"
LONGEST_GROUP = descriptions.MAX_WORD - len("group:")
"""Characters of an experiment's name in a tag."""
LAST_TIME = 253402300799
ACTIVE = ("SCHEDULED", "RUNNING")
"""Status of a run that has not ended."""
MOST_POINTS = 25_000
REQUESTS = 32
"""Number of requests with metrics whose repetition is recognised."""
_STORED = CompiledQuery(
    lambda run_id: MlflowRun.objects.defer("params", "tags", "inputs", "models_used", "models_made").filter(
        pk=run_id
    )
)
_IMAGE = re.compile(r"images/([^+%/]+)[+%]step[+%](\d{1,18})[+%]timestamp[+%](\d{1,14})[+%][^+%/]+\.png")
"""The file of `log_image` with a key and a step."""
_KEY = re.compile(f"{NAME_FIRST}{NAME_REST}{{0,{MAX_NAME - 1}}}")


def _visible(call: Call, runs: QuerySet[Run]) -> QuerySet[Run]:
    visible = runs.filter(project__in=projects_visible(call.user), mlflow__isnull=False)
    return visible.select_related("mlflow", "owner", "project").defer("config", "facts")


def run_named(call: Call, run_id: str = "") -> Run:
    """Return a run, by default that of the arguments. Raises MlflowError."""
    run_id = run_id or call.run_id
    run = _visible(call, Run.objects.all()).filter(pk=run_id).first()
    if run is None:
        raise MlflowError.unknown(f"run {run_id!r}")
    return run


def run_changed(call: Call, run_id: str = "") -> Run:
    """Return the run under its lock. Raises MlflowError, PermissionDenied.

    For each request with values: its queries are compiled once, and it reads neither the project nor the owner.
    """
    run_id = run_id or call.run_id
    run, stored = run_locked(run_id), _STORED.first(run_id)
    project = Project(pk=run.project_id) if run else None
    level = level_of(call.user, project) if project else None
    if run is None or project is None or stored is None or level is None:
        raise MlflowError.unknown(f"run {run_id!r}")
    if level == Level.VIEWER:
        require_edit(call.user, project)
    if run.archived:
        raise MlflowError.invalid(
            f"the run {run_id} must be in the 'active' state, and is deleted; restore it first"
        )
    run.mlflow = stored
    return run


def _documents(runs: Iterable[Run]) -> list[Json]:
    metrics: dict[str, list[Json]] = {run.pk: [] for run in runs}
    columns = ("run_id", "key", "last_value", "last_time", "last_step")
    for run_id, *point in Series.objects.filter(run__in=list(metrics)).values_list(*columns):
        metrics[run_id].append(_point(*point))
    return [
        {
            "info": _info(run),
            "data": {"metrics": metrics[run.pk], "params": pairs(run.mlflow.params), "tags": pairs(run.mlflow.tags)},
            "inputs": {"dataset_inputs": run.mlflow.inputs, "model_inputs": run.mlflow.models_used},
            "outputs": {"model_outputs": run.mlflow.models_made},
        }
        for run in runs
    ]  # fmt: skip


def _point(key: str, value: float, time: float, step: int) -> Json:
    return {"key": key, "value": spell(value), "timestamp": round(time * 1000), "step": step}


def _info(run: Run) -> Json:
    ended = {"end_time": milliseconds(run.ended_at)} if run.ended_at else {}
    return ended | {
        "run_id": run.pk,
        "run_uuid": run.pk,
        "run_name": run.name,
        "experiment_id": str(run.mlflow.experiment_id),
        "user_id": run.owner.username,
        "status": next(word for word, states in STATUS.items() if run.state in states),
        "start_time": milliseconds(run.started_at or run.created_at),
        "artifact_uri": f"mlflow-artifacts:/{run.pk}/artifacts",
        "lifecycle_stage": "deleted" if run.archived else "active",
    }


@transaction.atomic
def _create(call: Call) -> Json:
    tags = unpaired(call.items("tags"))
    run = _begun(call, call.text("run_name", "") or tags.get(NAME, ""), tags)
    if (start := call.arguments.get("start_time")) is not None:
        Run.objects.filter(pk=run.pk).update(started_at=moment_of(start))
    return {"run": _documents([run_named(call, run.pk)])[0]}


def _begun(call: Call, name: str, tags: dict[str, str]) -> Run:
    """Create a run in the experiment of the arguments."""
    experiment = experiment_get(call, call.text("experiment_id", "0"))
    if experiment.archived:
        raise MlflowError.invalid(f"the experiment {experiment.name!r} is deleted; restore it first")
    body = ClientRunBody(
        id=new_run_id(),
        name=shortened(name, descriptions.MAX_NAME),
        group="" if experiment.name == DEFAULT else shortened(experiment.name, LONGEST_GROUP),
        provenance=stated(tags),
    )
    run, _ = client_run_begin(call.user, experiment.project, body)
    run.mlflow = MlflowRun.objects.create(run=run, experiment=experiment)
    _tags_set(call, run, {USER: call.user.username, NAME: run.name} | tags)
    return run


@transaction.atomic
def _create_model(call: Call) -> Json:
    """Create a logged model. Without a run it has one of its own, which holds its files, and ends."""
    if source := call.text("source_run_id", ""):
        return model_create(call, run_changed(call, source).mlflow, alone=False)
    run = _begun(call, call.text("name", ""), {})
    _end(run, "FINISHED")
    return model_create(call, run.mlflow, alone=True)


def stated(tags: Mapping[str, str]) -> Json:
    """Return the provenance that the tags of MLflow's clients state: the program, the user and the commit."""
    source, commit = tags.get(f"{SOURCE}.name", ""), tags.get(f"{SOURCE}.git.commit", "")
    facts: Json = {"via": "MLflow", "command": source[:4000], "user": tags.get(USER, "")[:400]}
    if re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", commit):
        remote = without_secrets(tags.get(f"{SOURCE}.git.repoURL", ""))[:4000]
        name = PurePosixPath(remote or source).name.removesuffix(".git")[:400]
        branch = tags.get(f"{SOURCE}.git.branch", "")[:400]
        facts["repositories"] = [
            {"name": name, "folder": "", "commit": commit, "branch": branch, "remote": remote}
        ]
    return facts


def _search(call: Call) -> Json:
    experiments = experiments_named(call, call.items("experiment_ids"))
    view = VIEWS.get(call.text("run_view_type", "ACTIVE_ONLY"), {})
    runs = _visible(call, Run.objects.filter(mlflow__experiment__in=experiments, **view))
    rows, following = call.page(rows_filter(call, runs, RUNS, "-started_at"))
    return {"runs": _documents(rows)} | following


@transaction.atomic
def _update(call: Call) -> Json:
    """Change status, end time and name. A run that has ended and gets another status has a new attempt."""
    run, status = run_changed(call), call.text("status", "")
    if name := call.text("run_name", ""):
        _tags_set(call, run, run.mlflow.tags | {NAME: name})
    if status and status not in STATUS:
        raise MlflowError.invalid(f"status must be one of {', '.join(STATUS)}")
    if status and run.state not in STATUS[status]:
        if run.state in INACTIVE_STATES:
            provenance = stated(run.mlflow.tags)
            again = ClientRunBody(id=run.pk, resume="must", nonce=secrets.token_hex(8), provenance=provenance)
            run, _ = client_run_begin(call.user, run.project, again)
        if status not in ACTIVE:
            _end(run, status)
    if status and status not in ACTIVE and (end := call.arguments.get("end_time")) is not None:
        Run.objects.filter(pk=run.pk).update(ended_at=moment_of(end))
    return {"run_info": _info(run_named(call))}


def _end(run: Run, status: str) -> None:
    message = "Its program reported the status FAILED" if status == "FAILED" else ""
    state: Json = {"type": "status", "state": STATUS[status][0], "iteration": run.iteration}
    events_append(run, "mlflow", [StatusEvent.model_construct(**state, message=message)])


def _shelve(call: Call, act: str) -> Json:
    run_do(call.user, run_named(call), act)
    return {}


@transaction.atomic
def _delete_tag(call: Call) -> Json:
    run, key = run_changed(call), call.text("key")
    if key not in run.mlflow.tags:
        raise MlflowError.unknown(f"tag {key!r}")
    _tags_set(call, run, {name: value for name, value in run.mlflow.tags.items() if name != key})
    return {}


@transaction.atomic
def _log_inputs(call: Call) -> Json:
    """Store data sets, each name and digest once, and models that the run reads."""
    stored = run_changed(call).mlflow
    known = {_dataset(item) for item in stored.inputs}
    for item in call.items("datasets"):
        if (dataset := _dataset(item)) not in known:
            known.add(dataset)
            stored.inputs.append(item)
    stored.models_used += [item for item in call.items("models") if item not in stored.models_used]
    for what in (stored.inputs, stored.models_used):
        bounded(what, "the data sets of a run")
    stored.save(update_fields=["inputs", "models_used"])
    return {}


def _dataset(item: Any) -> tuple[str, str]:
    try:
        return str(item["dataset"]["name"]), str(item["dataset"]["digest"])
    except (KeyError, TypeError):
        raise MlflowError.invalid(
            "datasets are lists of objects with a dataset, which has name and digest"
        ) from None


@transaction.atomic
def _log_outputs(call: Call) -> Json:
    stored = run_changed(call).mlflow
    stored.models_made = bounded([*stored.models_made, *call.items("models")], "the models of a run")
    stored.save(update_fields=["models_made"])
    return {}


@transaction.atomic
def _log_model(call: Call) -> Json:
    """Add the description of a model, whose files clients before 3.0 store as artifacts, to a tag."""
    run = run_changed(call)
    try:
        models = [*orjson.loads(run.mlflow.tags.get(MODELS, "[]")), orjson.loads(call.text("model_json"))]
    except (TypeError, orjson.JSONDecodeError):
        raise MlflowError.invalid(f"model_json and the tag {MODELS} are JSON") from None
    _tags_set(call, run, run.mlflow.tags | {MODELS: orjson.dumps(models).decode()})
    return {}


def _history(call: Call) -> Json:
    """Return the points of a metric by step, those of one step in the order of their arrival."""
    key = call.text("metric_key")
    points = points_read(run_named(call), key)
    rows, following = call.page(range(len(points.steps)), MOST_POINTS)
    columns = (points.values[rows].tolist(), points.times[rows].tolist(), points.steps[rows].tolist())
    return {"metrics": [_point(key, *row) for row in zip(*columns, strict=True)]} | following


def _log(call: Call, metrics: Sequence[Any], params: Mapping[str, str], tags: Mapping[str, str]) -> Json:
    held, params = "", values_without_secrets(params)
    if "" in params or "" in tags:
        raise MlflowError.invalid("parameters and tags have names")
    with transaction.atomic():
        run = run_changed(call)
        if params and (new := dict(params.items() - run.mlflow.params.items())):
            _params_add(run, new)
        if tags:
            _tags_set(call, run, {**run.mlflow.tags, **tags})
        if metrics:
            held = _metrics_add(call, run, metrics)
    if held:
        raise MlflowError("RESOURCE_EXHAUSTED", held, 507)
    return {}


def _params(items: Sequence[Any]) -> dict[str, str]:
    """Return the parameters of a batch. Raises MlflowError if one has two values."""
    params = unpaired(items)
    if len(params) < len(items):
        raise MlflowError.invalid("a parameter occurs twice in one request; log each of them once")
    return params


def _params_add(run: Run, params: Mapping[str, str]) -> None:
    stored = run.mlflow.params
    if wrong := next((key for key in params if key in stored), None):
        raise MlflowError.invalid(
            f"the parameter {wrong!r} is {stored[wrong]!r}, and cannot become {params[wrong]!r}"
        )
    run.mlflow.params = bounded({**stored, **params}, "the parameters of a run")
    client_run_configure(run, {key: typed(value) for key, value in params.items()})
    run.mlflow.save(update_fields=["params"])


def _labels(tags: Mapping[str, str]) -> set[str]:
    """Return the tags that the run's page shows: those of users, as many as a run of `troupe.init` may have."""
    texts = (f"{key}:{value}" for key, value in tags.items() if not key.startswith("mlflow."))
    labels = sorted(shortened(text, descriptions.MAX_WORD) for text in texts)
    return set(labels[: descriptions.MAX_TAGS])


def _tags_set(call: Call, run: Run, tags: dict[str, str]) -> None:
    """Replace the tags of MLflow. Some of them are the name of the run, and a note by the caller."""
    tags = tags | ({NAME: shortened(tags[NAME], descriptions.MAX_NAME)} if NAME in tags else {})
    before, run.mlflow.tags = run.mlflow.tags, bounded(tags, "the tags of a run")
    run.mlflow.save(update_fields=["tags"])
    run.tags = sorted(set(run.tags) - _labels(before) | _labels(tags))
    run.name = tags.get(NAME) or run.name
    run.save(update_fields=["tags", "name"])
    note, text = (values.get(NOTE, "")[:LONGEST_NOTE].strip() for values in (before, tags))
    if note == text:
        return
    for own in RunNote.objects.filter(run=run, author=call.user, step=None, text=note):
        run_note_remove(call.user, own)
    if text:
        run_note_add(call.user, run, RunNoteBody(text=text))


def _metrics_add(call: Call, run: Run, metrics: Sequence[Any]) -> str:
    """Store points; those of a repeated request are stored already. Returns why the storage quota holds them back."""
    digest = hashlib.sha256(orjson.dumps(call.arguments)).hexdigest()[:16]
    if digest in run.mlflow.requests:
        return ""
    _events(metrics)  # all are valid
    events = _events(_fresh(run, metrics))
    held = _events_add(run, events) if events else ""
    if not held:
        metrics_link(call, run.pk, metrics)
        run.mlflow.requests = [*run.mlflow.requests[1 - REQUESTS :], digest]
        run.mlflow.save(update_fields=["requests"])
    return held


def _events_add(run: Run, events: Sequence[MetricsEvent]) -> str:
    completed = min(max(run.iteration, *(event.step for event in events)), descriptions.LARGEST_STEP)
    beat: Json = {"type": "heartbeat", "iteration": completed}
    return events_append(run, "mlflow", [*events, HeartbeatEvent.model_construct(**beat)]).held


def _fresh(run: Run, metrics: Sequence[Any]) -> list[Any]:
    """Leave out points that the run has: equal in name, step, time and value. `log_model` logs those of its step again, as the model's.

    The points of a metric are read only if a new one is not the last. Metrics that a task summarises are not examined.
    """
    keys = {metric["key"] for metric in metrics}
    narrow = Series.objects.filter(run=run, key__in=keys, wide=False)
    ends = {key: end for key, *end in narrow.values_list("key", "last_step", "last_time")}
    again = {
        m["key"]
        for m in metrics
        if m["key"] in ends and [_step(m), int(m["timestamp"]) / 1000] <= ends[m["key"]]
    }
    stored: set[tuple[Any, ...]] = set()
    for key in again:
        points = points_read(run, key)
        columns = (points.values.tolist(), points.times.tolist(), points.steps.tolist())
        stored.update(tuple(_point(key, *row).values()) for row in zip(*columns, strict=True))
    fresh = []
    for metric in metrics:
        point = (metric["key"], spell(float(metric["value"])), int(metric["timestamp"]), _step(metric))
        if point not in stored:
            stored.add(point)
            fresh.append(metric)
    return fresh


def _step(metric: Mapping[str, Any]) -> int:
    return int(metric.get("step") or 0)


def image_store(call: Call, run: Run, file: ArtifactFile) -> None:
    """Store the file of `log_image` as media, too: its page shows images by step."""
    match = _IMAGE.fullmatch(file.path)
    if run.archived or match is None or file.size > MAX_IMAGE:
        return
    if not _KEY.fullmatch(name := match[1].replace("~", "/")):
        return
    content = content_path(run.project, file.sha256).read_bytes()
    if image_type(content):
        values = [ImageMedia(kind="image", data=b64encode(content).decode())]
        event: Json = {"type": "media", "name": name, "step": int(match[2]), "time": int(match[3]) / 1000}
        with transaction.atomic():
            run = run_changed(call, run.pk)
            event |= {"values": values, "attempt": run.attempts.count()}
            events_append(run, "mlflow", [MediaEvent.model_construct(**event)])


def _events(metrics: Sequence[Any]) -> list[MetricsEvent]:
    """Return an event for neighbours with the same step and time. A metric that repeats its name begins another one."""
    events: list[MetricsEvent] = []
    values: dict[str, float] = {}
    at: tuple[int, int] | None = None
    try:
        for metric in metrics:
            key, here = metric["key"], (_step(metric), int(metric["timestamp"]))
            if here != at or key in values:
                at, values = here, {}
                event: Json = {"type": "metrics", "step": here[0], "time": here[1] / 1000, "values": values}
                events.append(MetricsEvent.model_construct(**event))
            values[key] = float(metric["value"])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise MlflowError.invalid("a metric has key, value, timestamp in milliseconds, and step") from None
    if not all(-(2**63) <= event.step < 2**63 and 0 <= event.time <= LAST_TIME for event in events):
        raise MlflowError.invalid("steps have 64 bits, and timestamps are milliseconds since 1970")
    for key in {key for event in events for key in event.values}:
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise MlflowError.invalid(
                f"{str(key)[:300]!r} is not a name of a metric: at most {MAX_NAME} characters, no commas"
            )
    return events


OPERATIONS: Operations = {
    ("POST", "runs/create"): _create,
    ("GET", "runs/get"): lambda call: {"run": _documents([run_named(call)])[0]},
    ("POST", "runs/search"): _search,
    ("POST", "runs/update"): _update,
    ("POST", "runs/delete"): lambda call: _shelve(call, "archive"),
    ("POST", "runs/restore"): lambda call: _shelve(call, "unarchive"),
    ("POST", "runs/log-metric"): lambda call: _log(call, [call.arguments], {}, {}),
    ("POST", "runs/log-parameter"): lambda call: _log(
        call, [], {call.text("key"): call.text("value", "")}, {}
    ),
    ("POST", "runs/set-tag"): lambda call: _log(call, [], {}, {call.text("key"): call.text("value", "")}),
    ("POST", "runs/delete-tag"): _delete_tag,
    ("POST", "runs/log-batch"): lambda call: _log(
        call, call.items("metrics"), _params(call.items("params")), unpaired(call.items("tags"))
    ),
    ("POST", "runs/log-inputs"): _log_inputs,
    ("POST", "runs/outputs"): _log_outputs,
    ("POST", "runs/log-model"): _log_model,
    ("POST", "logged-models"): _create_model,
    ("GET", "metrics/get-history"): _history,
}
