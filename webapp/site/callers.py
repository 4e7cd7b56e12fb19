"""Who may send a large body, asked before it is read: the caller by token or session, and the right to write at the address."""

import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.sessions.backends.db import SessionStore
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, parse_cookie

from webapp.accounts.models import ApiToken, User
from webapp.accounts.permissions import can_edit_run
from webapp.accounts.selectors import projects_editable
from webapp.accounts.tokens import token_covers, token_find
from webapp.artifacts.contents import LARGEST_FILE
from webapp.experiments.data import LARGEST
from webapp.ingest.batches import MAX_BODY, IngestRejected
from webapp.ingest.views import check_token
from webapp.live.access import headers_of
from webapp.mlflow.views import secret_of

FORM = 1_000_000
"""Bytes of an upload's form around its file."""
OF_MLFLOW = re.compile(r"/mlflow/|/api/[^/]+/mlflow")
CHECKS = ThreadPoolExecutor(4, thread_name_prefix="caller")
"""Threads, and so connections to the database, for requests whose caller is not known yet."""


class Refused(Exception):
    """A request is refused before its body is read."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        self.status = status
        self._code, self._detail = code, detail
        super().__init__(detail)

    def document(self, path: str) -> dict[str, str]:
        """Return the response's JSON, at an address of MLflow in its form."""
        if OF_MLFLOW.match(path):
            return {"error_code": self._code.upper(), "message": self._detail}
        return {"code": self._code, "detail": self._detail}


@dataclass(frozen=True)
class Upload:
    """An address whose bodies may be larger than those of forms and calls of the API."""

    path: re.Pattern[str]
    method: str
    most: int
    """Bytes."""
    permits: Callable[[User, str], bool]
    """Called with the user and the first group of `path`; returns whether the user may write there."""


EVENTS = Upload(re.compile(r"/api/v1/runs/([^/]+)/events/"), "POST", MAX_BODY, can_edit_run)
UPLOADS = (
    EVENTS,
    Upload(
        re.compile(r"/api/v1/projects/([^/]+)/artifact-contents/[^/]+/"), "PUT", LARGEST_FILE,
        lambda user, slug: projects_editable(user).filter(slug=slug).exists(),
    ),
    Upload(
        re.compile(r"(?:/mlflow(?:/[^/]+)?)?/api/[^/]+/mlflow-artifacts/artifacts/([^/]+)/.+"), "PUT", LARGEST_FILE, can_edit_run
    ),
    Upload(re.compile(r"/experiments/data()/"), "POST", LARGEST + FORM, lambda user, _: projects_editable(user).exists()),
)  # fmt: skip


def limit_of(scope: Mapping[str, Any]) -> int:
    """Return the maximum bytes of a request's body."""
    upload, _ = _upload_of(scope)
    return upload.most if upload else settings.DATA_UPLOAD_MAX_MEMORY_SIZE


def caller_check(scope: Mapping[str, Any]) -> object:
    """Return what names the caller of a request, for counting. Raises Refused."""
    upload, name = _upload_of(scope)
    headers = headers_of(scope)
    authorization = headers.get(b"authorization", "")
    try:
        if upload is EVENTS:
            return _reporter(authorization, name)
        user = _by_token(authorization, upload) if authorization else _by_session(headers.get(b"cookie", ""))
        if upload and not upload.permits(user, name):
            raise Refused(
                404, "resource_does_not_exist", "this address does not exist, or you may not write to it"
            )
    except (OperationalError, InterfaceError) as error:
        raise Refused(503, "temporarily_unavailable", "the database does not answer; try again") from error
    return user.pk


def _upload_of(scope: Mapping[str, Any]) -> tuple[Upload | None, str]:
    for upload in UPLOADS:
        match = upload.path.fullmatch(scope["path"])
        if match and scope["method"] == upload.method:
            return upload, match[1]
    return None, ""


def _reporter(authorization: str, run_id: str) -> str:
    try:
        check_token(authorization, run_id)
    except IngestRejected as rejected:
        raise Refused(rejected.status, rejected.payload["code"], rejected.payload["detail"]) from rejected
    return run_id


def _by_token(authorization: str, upload: Upload | None) -> User:
    token = token_find(secret_of(authorization))
    remedy = "create one under Account, API tokens"
    if token is None:
        raise Refused(401, "unauthenticated", f"this token is unknown, expired or revoked; {remedy}")
    if upload and not token_covers(token, ApiToken.Scope.LAUNCH):
        raise Refused(403, "permission_denied", f"this token lacks the scope launch; {remedy}")
    return token.user


def _by_session(cookies: str) -> User:
    request = HttpRequest()
    request.session = SessionStore(parse_cookie(cookies).get(settings.SESSION_COOKIE_NAME))
    user = get_user(request)
    if not isinstance(user, User) or not user.is_active:
        raise Refused(401, "unauthenticated", "a body of this size needs a login or a token")
    return user
