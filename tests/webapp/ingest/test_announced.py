"""The web server itself refuses bodies that are too large, before Django sees them."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

from webapp.ingest.batches import MAX_BODY


def test_a_body_that_is_announced_too_large_is_not_read() -> None:
    from webapp.config.asgi import (
        application,  # here: it takes the hosts that are allowed when it is imported, the tests' own with them
    )

    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        raise AssertionError("it was read")

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    headers = [(b"host", b"127.0.0.1"), (b"content-length", str(MAX_BODY + 1).encode())]
    scope = {"type": "http", "method": "POST", "path": "/login/", "query_string": b"", "headers": headers}
    asyncio.run(application(scope, receive, send))
    assert sent[0]["status"] == 413
    assert (
        sent[1]["body"]
        == b'{"code": "too_large", "detail": "a request\'s body has at most %d bytes"}' % MAX_BODY
    )
