"""Every error as JSON: {"detail": ...}, or {"errors": {field path: message}} for invalid fields."""

import logging
from typing import Any

from django.core.exceptions import ValidationError
from django.db import DataError, InterfaceError, OperationalError
from rest_framework.response import Response
from rest_framework.views import exception_handler

from training_core.errors import ConfigError
from webapp.common.searches import refusal_of
from webapp.runs.states import TransitionRefused

log = logging.getLogger(__name__)


def handle(error: Exception, context: dict[str, Any]) -> Response | None:
    """Handle our own errors, then DRF's."""
    if isinstance(error, ConfigError):
        return Response({"detail": str(error), "errors": error.fields}, status=400)
    if isinstance(error, TransitionRefused):
        return Response({"detail": str(error), **error.document}, status=409)
    if isinstance(error, ValidationError):
        return Response({"detail": "; ".join(error.messages)}, status=400)
    if isinstance(error, DataError | OperationalError) and (reason := refusal_of(error)):
        return Response({"detail": reason}, status=400)
    if isinstance(error, OperationalError | InterfaceError):
        log.warning("a request failed: the database does not answer: %s", error)
        return Response(
            {"detail": "the database does not answer; try again"}, status=503, headers={"Retry-After": "2"}
        )
    return exception_handler(error, context)
