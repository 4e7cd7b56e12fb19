"""Rejection of a batch, and the response to its sender."""

from typing import Any


class IngestRejected(Exception):
    """The whole batch was rejected; none of its events were stored."""

    def __init__(self, status: int, payload: dict[str, Any]) -> None:
        self.status = status
        self.payload = payload
        super().__init__(f"{status} {payload}")


def invalid(seq: int | None, errors: dict[str, str]) -> IngestRejected:
    """400: the event `seq` (None: the body itself) cannot be stored; one message per field path."""
    return IngestRejected(400, {"code": "invalid", "seq": seq, "errors": errors})


def gap(expected: int) -> IngestRejected:
    """409: events before this batch are missing; send from `expected` on."""
    return IngestRejected(409, {"code": "gap", "expected": expected})


def full(detail: str, command: str | None) -> IngestRejected:
    """507: the project's storage quota is reached; keep the batch and try again. Commands still reach the driver."""
    return IngestRejected(507, {"code": "quota", "detail": detail, "command": command})


def too_large(detail: str) -> IngestRejected:
    """413: send smaller batches."""
    return IngestRejected(413, {"code": "too_large", "detail": detail})


def busy(detail: str) -> IngestRejected:
    """503: the batch is valid; keep it and try again."""
    return IngestRejected(503, {"code": "busy", "detail": detail})
