"""Every error as JSON: {"detail": ...}, or {"errors": {field path: message}} where fields are at fault."""

from typing import Any

from django.core.exceptions import ValidationError
from rest_framework.exceptions import APIException
from rest_framework.response import Response
from rest_framework.views import exception_handler

from training_core.errors import ConfigError
from webapp.runs.states import TransitionRefused


class Conflict(APIException):
    """409: not in this state."""

    status_code = 409


def handle(error: Exception, context: dict[str, Any]) -> Response | None:
    """Our own errors, then DRF's."""
    if isinstance(error, ConfigError):
        return Response({"detail": str(error), "errors": error.fields}, status=400)
    if isinstance(error, TransitionRefused):
        return Response({"detail": str(error)}, status=409)
    if isinstance(error, ValidationError):
        return Response({"detail": "; ".join(error.messages)}, status=400)
    return exception_handler(error, context)
