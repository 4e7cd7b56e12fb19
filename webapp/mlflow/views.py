"""Requests of MLflow's clients: their tokens, operations and files, and errors as {"error_code", "message"}."""

import re
from base64 import b64decode
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import wraps
from io import BytesIO
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import DataError, InterfaceError, OperationalError, transaction
from django.http import Http404, HttpRequest
from django.http.response import HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from rest_framework.exceptions import APIException

from training_core.errors import ConfigError
from webapp.accounts.authentication import scope_needed
from webapp.accounts.models import ApiToken
from webapp.accounts.selectors import projects_visible
from webapp.accounts.tokens import token_covers, token_find
from webapp.api.parsers import StrictJSONParser
from webapp.artifacts.contents import file_response
from webapp.artifacts.models import ArtifactFile
from webapp.artifacts.services import run_file_store, run_version
from webapp.mlflow import experiments, logged_models, runs
from webapp.mlflow.audit import EVERY, operation_note
from webapp.mlflow.protocol import Call, Function, Json, MlflowError
from webapp.runs.models import Run
from webapp.runs.states import TransitionRefused

OPERATIONS = experiments.OPERATIONS | runs.OPERATIONS | logged_models.OPERATIONS
DELETIONS = {("POST", "experiments/delete"), ("DELETE", "logged-models/ID")}
STORED = "Troupe stores experiments, runs, metrics, parameters, tags, data sets, artifacts and logged models of MLflow"
ERRORS: tuple[tuple[tuple[type[Exception], ...], str, int], ...] = (
    ((Http404,), "RESOURCE_DOES_NOT_EXIST", 404),
    ((PermissionDenied,), "PERMISSION_DENIED", 403),
    ((TransitionRefused,), "RESOURCE_CONFLICT", 409),
    ((ConfigError, ValidationError, APIException, DataError), "INVALID_PARAMETER_VALUE", 400),
    ((OperationalError, InterfaceError), "TEMPORARILY_UNAVAILABLE", 503),
)
"""Errors of services -> MLflow's code, and a status: clients repeat a request after 429, 500, 502, 503 and 504."""
_FILE = re.compile(r"([a-z0-9]{8,12})/artifacts(?:/(.+))?")
"""A path below mlflow-artifacts:/."""
_MODEL = re.compile(r"logged-models/(?!search$)([^/]+)(/params|/tags|/tags/(.+))?")
"""An operation on a logged model."""
View = Callable[..., HttpResponseBase]


@require_safe
def page(request: HttpRequest, slug: str = "") -> HttpResponse:
    """Redirect to the runs, of a project if the user may see it."""
    project = get_object_or_404(projects_visible(request.user), slug=slug) if slug else None
    return redirect(f"/runs/?project={project.slug}" if project else "/runs/")


def _answered(view: View) -> View:
    """Answer every error in MLflow's form. Sessions of browsers are not accepted, so that forms of other sites reach nothing."""

    @login_not_required
    @csrf_exempt
    @wraps(view)
    def answer(request: HttpRequest, version: str, slug: str = "", **variables: str) -> HttpResponseBase:
        try:
            return view(request, slug, **variables)
        except MlflowError as error:
            return _refusal(error.code, str(error), error.status)
        except Exception as error:
            for kinds, code, status in ERRORS:
                if isinstance(error, kinds):
                    return _refusal(code, str(error) or code, status)
            raise

    return answer


def _refusal(code: str, message: str, status: int) -> JsonResponse:
    return JsonResponse({"error_code": code, "message": message}, status=status)


def _call(request: HttpRequest, slug: str, scope: ApiToken.Scope, arguments: Json) -> Call:
    """Return the call of the token's user. Raises MlflowError."""
    token = token_find(secret_of(request.headers.get("Authorization", "")))
    where = "create one under Account, API tokens"
    if token is None:
        raise MlflowError("UNAUTHENTICATED", f"set MLFLOW_TRACKING_TOKEN to a token of Troupe; {where}", 401)
    if not token_covers(token, scope):
        raise MlflowError("PERMISSION_DENIED", f"this token lacks the scope {scope}; {where}", 403)
    return Call(token.user, arguments, slug)


def secret_of(header: str) -> str:
    """Return the token: MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_PASSWORD, with any user name."""
    scheme, _, content = header.partition(" ")
    if scheme.lower() == "basic":
        with suppress(ValueError):
            return b64decode(content).decode().partition(":")[2]
    return content.strip() if scheme.lower() == "bearer" else ""


def _query(request: HttpRequest) -> Json:
    return {name: values if len(values) > 1 else values[0] for name, values in request.GET.lists()}


@_answered
def operate(request: HttpRequest, slug: str, name: str) -> HttpResponseBase:
    """Answer an operation, such as runs/create."""
    operation, named = name, {}
    if match := _MODEL.fullmatch(name):
        operation = f"logged-models/ID{'/tags/KEY' if match[3] else match[2] or ''}"
        named = {"model_id": match[1], "tag_key": match[3]}
    key = (str(request.method), operation)
    call = _call(request, slug, _scope(*key), _query(request) | named)
    function = OPERATIONS.get(key)
    if function is None:
        message = f"{request.method} {name} is not supported: {STORED}, but no model registry and traces"
        raise MlflowError("ENDPOINT_NOT_FOUND", message, 404)
    if request.method != "GET" and request.body:
        body: Any = StrictJSONParser().parse(BytesIO(request.body))
        call = Call(call.user, (body if isinstance(body, dict) else {}) | named, slug)
    return JsonResponse(_perform(call, key, function))


def _scope(method: str, operation: str) -> ApiToken.Scope:
    """Return the scope of an operation: as in the REST API, deletions other than of tags and of single runs need admin."""
    if method == "GET" or operation.endswith("/search"):
        return ApiToken.Scope.READ
    return ApiToken.Scope.ADMIN if (method, operation) in DELETIONS else ApiToken.Scope.LAUNCH


def _perform(call: Call, key: tuple[str, str], function: Function) -> Json:
    """Return what the function returns, and write the operation's entry in the audit log."""
    with transaction.atomic() if key in EVERY else nullcontext():
        answer = function(call)
        operation_note(call, key, answer)
    return answer


def _file(call: Call, path: str) -> tuple[Run, str]:
    match = _FILE.fullmatch(path.strip("/"))
    if match is None:
        raise MlflowError.unknown(f"the path {path[:200]!r}")
    return runs.run_named(call, match[1]), match[2] or ""


@_answered
def files(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Return files and folders directly in the folder `path`."""
    call = _call(request, slug, ApiToken.Scope.READ, _query(request))
    run, folder = _file(call, call.text("path"))
    start, version = f"{folder}/" if folder else "", run_version(run)
    below = version.files.filter(path__startswith=start) if version else ArtifactFile.objects.none()
    if not re.match(logged_models.FOLDER, start):
        # MLflow's clients add the files of the run's models by themselves.
        below = below.exclude(path__regex=f"^{logged_models.FOLDER}")
    listed: dict[str, Json] = {}
    for file in below:
        name, slash, _ = file.path[len(start) :].partition("/")
        listed[name] = {"path": name, "is_dir": bool(slash)} | ({} if slash else {"file_size": file.size})
    return JsonResponse({"files": list(listed.values())})


@_answered
def file(request: HttpRequest, slug: str, path: str) -> HttpResponseBase:
    """Store or return the file of a run."""
    call = _call(request, slug, scope_needed(str(request.method), admin=False), {})
    run, name = _file(call, path)
    if request.method == "PUT":
        if new := run_file_store(call.user, run, name, request.read):
            runs.image_store(call, run, new)
        return JsonResponse({})
    version = run_version(run)
    if request.method != "GET" or version is None:
        raise MlflowError.unknown(f"the file {path[:200]!r}")
    return file_response(request, version, name)
