"""A run that changes, and sockets that watch it."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from channels.routing import URLRouter

from webapp.accounts.models import User
from webapp.ingest.services import batch_store
from webapp.live.access import SameOrigin
from webapp.live.consumers import websocket_urlpatterns
from webapp.runs.models import Attempt, Run

Store = Callable[..., Awaitable[int]]
PATIENCE = 60.0
"""Seconds until something that should happen is given up: the machine may be busy."""


class As:
    """Stands where the session middleware stands: somebody is logged in."""

    def __init__(self, user: object) -> None:
        self.user = user
        self.inner = URLRouter(websocket_urlpatterns)

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> Any:
        return await self.inner({**scope, "user": self.user}, receive, send)


class Socket(ApplicationCommunicator):
    """A browser's end (Channels' own communicator cannot be imported without daphne)."""

    def __init__(self, application: Any, path: str, headers: list[tuple[bytes, bytes]]) -> None:
        scope = {
            "type": "websocket", "path": path, "query_string": b"", "headers": headers, "subprotocols": [],
        }  # fmt: skip
        super().__init__(application, scope)

    async def connect(self) -> tuple[bool, int | None]:
        await self.send_input({"type": "websocket.connect"})
        answer = await self.receive_output(PATIENCE)
        return answer["type"] == "websocket.accept", answer.get("code")

    async def send_text(self, text: str) -> None:
        await self.send_input({"type": "websocket.receive", "text": text})

    async def send_json_to(self, data: object) -> None:
        await self.send_text(json.dumps(data))

    async def receive_from(self, timeout: float = PATIENCE) -> str:
        message = await self.receive_output(timeout)
        assert message["type"] == "websocket.send", message
        return str(message["text"])

    async def receive_json_from(self, timeout: float = PATIENCE) -> Any:
        return json.loads(await self.receive_from(timeout))

    async def disconnect(self) -> None:
        await self.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.wait(PATIENCE)


def socket(user: object, path: str, origin: bytes = b"http://testserver") -> Socket:
    application = SameOrigin(As(user))
    return Socket(application, path, [(b"origin", origin), (b"host", b"testserver")])


@asynccontextmanager
async def watching(user: User, run: Run, cursor: int | None = None) -> AsyncIterator[Socket]:
    """A connected socket that has said its cursor."""
    client = socket(user, f"/ws/runs/{run.pk}/")
    connected, _ = await client.connect()
    assert connected
    if cursor is not None:
        await client.send_json_to({"cursor": cursor})
    try:
        yield client
    finally:
        await client.disconnect()


async def until(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.fixture
def live_run(transactional_db: None, run: Run) -> Run:
    Attempt.objects.create(run=run, number=1, submission_id=f"troupe-{run.pk}-1", state=Attempt.State.LIVE)
    return run


@pytest.fixture
def store(live_run: Run) -> Store:
    """Store metrics events through ingest, in a thread of its own; returns the cursor after them."""
    seq = 0

    def put(count: int = 1, values: dict[str, Any] | None = None) -> int:
        nonlocal seq
        lines = []
        for _ in range(count):
            seq += 1
            event = {
                "run": live_run.pk, "attempt": 1, "producer": "p", "seq": seq, "time": float(seq),
                "type": "metrics", "step": seq, "values": values or {"a": seq},
            }  # fmt: skip
            lines.append(json.dumps(event).encode())
        batch_store(live_run.pk, b"\n".join(lines), "")
        return Run.objects.get(pk=live_run.pk).event_count

    return sync_to_async(put, thread_sensitive=True)
