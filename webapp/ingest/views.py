"""POST /api/v1/runs/<id>/events/: the only URL that a running job writes to.

Body: NDJSON of events of one producer, optionally Content-Encoding: zstd or gzip. Responses: 200 {"acknowledged", "command"};
400 {"code": "invalid", "seq", "errors"}; 401, 403 token; 404 run or attempt; 409 {"code": "gap", "expected"}; 413; 507 {"code": "quota"}
the project's storage quota is reached, 503 {"code": "busy" or "unavailable"}: try again.
"""

import logging

from django.contrib.auth.decorators import login_not_required
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from webapp.accounts.audit import audit_once
from webapp.accounts.models import ApiToken, Project
from webapp.accounts.permissions import can_edit_run
from webapp.accounts.tokens import token_covers, token_find
from webapp.ingest.batches import MAX_BODY, IngestRejected, Room, too_large
from webapp.ingest.services import batch_store

logger = logging.getLogger(__name__)


@login_not_required
@csrf_exempt
@require_POST
def events(request: HttpRequest, run_id: str) -> HttpResponse:
    """Store one batch."""
    try:
        token = check_token(request.headers.get("Authorization", ""), run_id)
        with Room() as room:
            body = _body(request, room)
            answer = batch_store(run_id, body, request.headers.get("Content-Encoding", ""), room)
    except IngestRejected as rejected:
        response = JsonResponse(rejected.payload, status=rejected.status)
        if rejected.status == 401:
            response["WWW-Authenticate"] = "Bearer"
        return response
    except (OperationalError, InterfaceError) as error:
        logger.warning("Events wait: the database does not answer: %s", error)
        return JsonResponse({"code": "unavailable", "detail": "the database does not answer"}, status=503)
    if token.run_id is None:
        audit_once(token, Project.objects.get(runs=run_id), "run.report", run_id)
    return JsonResponse({"acknowledged": answer.acknowledged, "command": answer.command})


def check_token(authorization: str, run_id: str) -> ApiToken:
    """Return the token of this header if it permits writing to the run: the run's own token, or one with the scope launch of a user
    who can edit the run (for `troupe sync`).

    Raises IngestRejected.
    """
    scheme, _, secret = authorization.partition(" ")
    token = token_find(secret.strip()) if scheme.lower() == "bearer" and secret.strip() else None
    if token is None:
        raise IngestRejected(401, {"code": "unauthenticated", "detail": "a valid bearer token is required"})
    if not _may_write(token, run_id):
        raise IngestRejected(
            403, {"code": "forbidden", "detail": "this token cannot write events of this run"}
        )
    return token


def _may_write(token: ApiToken, run_id: str) -> bool:
    if token.run_id is not None:
        return ApiToken.Scope.INGEST in token.scopes and token.run_id == run_id
    if ApiToken.Scope.INGEST not in token.scopes and not token_covers(token, ApiToken.Scope.LAUNCH):
        return False
    return can_edit_run(token.user, run_id)


def _body(request: HttpRequest, room: Room) -> bytes:
    """Return the body, reading past Django's own small limit; checks and claims its declared length before reading."""
    announced = request.headers.get("Content-Length", "")
    length = int(announced) if announced.isdigit() else MAX_BODY
    if length > MAX_BODY:
        raise too_large(f"at most {MAX_BODY} bytes at once")
    room.claim(length)
    return request.read(MAX_BODY + 1)
