"""The web server itself refuses bodies that are too large, before Django sees them."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest
from django.conf import settings

from webapp.ingest.batches import MAX_BODY

MAX_OTHERS = settings.DATA_UPLOAD_MAX_MEMORY_SIZE


@pytest.mark.parametrize(
    ("path", "most"),
    [("/account/login/", MAX_OTHERS), ("/api/v1/jobs/", MAX_OTHERS), ("/api/v1/runs/a/events/", MAX_BODY)],
)
def test_a_body_that_is_announced_too_large_is_not_read(path: str, most: int) -> None:
    from webapp.site.asgi import (
        application,  # here: it takes the hosts that are allowed when it is imported, the tests' own with them
    )

    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        raise AssertionError("it was read")

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    headers = [(b"host", b"127.0.0.1"), (b"content-length", str(most + 1).encode())]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
    asyncio.run(application(scope, receive, send))
    assert sent[0]["status"] == 413
    assert (
        sent[1]["body"]
        == b'{"code": "too_large", "detail": "the body of a request may have at most %d bytes"}' % most
    )
