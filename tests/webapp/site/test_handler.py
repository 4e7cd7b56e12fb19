"""The handler of HTTP requests: threads are reused, requests beyond their number wait, downloads hold none up."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.test import override_settings
from django.urls import path

from webapp.site.handler import THREADS, ThreadHandler

release = threading.Event()
"""Until it is set, `waits` does not return."""
seen: list[str] = []
"""Names of the threads of `plain`."""


@login_not_required
def plain(request: HttpRequest) -> HttpResponse:
    seen.append(threading.current_thread().name)
    return HttpResponse("plain")


@login_not_required
def waits(request: HttpRequest) -> HttpResponse:
    release.wait(60)
    return HttpResponse("waited")


@login_not_required
def download(request: HttpRequest) -> StreamingHttpResponse:
    async def parts() -> Any:
        yield b"a part"

    return StreamingHttpResponse(parts())


urlpatterns = [path("plain", plain), path("healthz", plain), path("waits", waits), path("download", download)]


@pytest.fixture(autouse=True)
def _urls() -> Iterator[None]:
    release.clear()
    seen.clear()
    with override_settings(ROOT_URLCONF=__name__):
        yield
    release.set()


class Client:
    """One request: its status and body, and whether its client takes the body."""

    def __init__(self, handler: ThreadHandler, address: str, takes: asyncio.Event | None = None) -> None:
        self.status, self.body = 0, b""
        self._asked = False
        self._takes = takes
        self.left = asyncio.Event()
        scope = {
            "type": "http", "method": "GET", "path": address, "query_string": b"",
            "headers": [(b"host", b"testserver")],
        }  # fmt: skip
        self.task = asyncio.create_task(handler(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if self._asked:
            await self.left.wait()
            return {"type": "http.disconnect"}
        self._asked = True
        return {"type": "http.request", "body": b""}

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            if self._takes:
                await self._takes.wait()
            self.body += message.get("body", b"")


async def finished(*clients: Client) -> list[tuple[int, bytes]]:
    await asyncio.wait_for(asyncio.gather(*(client.task for client in clients)), 60)
    return [(client.status, client.body) for client in clients]


async def test_threads_are_reused_and_limited() -> None:
    handler = ThreadHandler()
    for _ in range(5):
        assert await finished(Client(handler, "/plain")) == [(200, b"plain")]
    assert len(set(seen)) == 1
    many = [Client(handler, "/plain") for _ in range(10 * THREADS)]
    assert set(await finished(*many)) == {(200, b"plain")}
    assert len(set(seen)) <= THREADS


async def test_requests_beyond_the_threads_wait() -> None:
    handler = ThreadHandler()
    slow = [Client(handler, "/waits") for _ in range(THREADS)]
    later = Client(handler, "/plain")
    await asyncio.sleep(0.2)
    assert not later.task.done() and not seen
    release.set()
    assert await finished(later, *slow) == [(200, b"plain")] + [(200, b"waited")] * THREADS


async def test_downloads_do_not_hold_up_other_requests() -> None:
    handler, takes = ThreadHandler(), asyncio.Event()
    slow = [Client(handler, "/download", takes) for _ in range(THREADS)]
    assert await finished(Client(handler, "/plain")) == [(200, b"plain")]
    takes.set()
    assert await finished(*slow) == [(200, b"a part")] * THREADS


async def test_a_view_that_outlives_its_client_keeps_its_thread() -> None:
    handler = ThreadHandler()
    gone = Client(handler, "/waits")
    await asyncio.sleep(0.1)
    gone.left.set()
    await asyncio.sleep(0.1)
    assert await finished(Client(handler, "/plain")) == [(200, b"plain")], "in another thread"
    release.set()
    await asyncio.wait_for(asyncio.gather(gone.task, return_exceptions=True), 60)


async def test_monitoring_answers_while_all_threads_are_taken() -> None:
    handler = ThreadHandler()
    slow = [Client(handler, "/waits") for _ in range(THREADS)]
    assert await finished(Client(handler, "/healthz")) == [(200, b"plain")]
    release.set()
    await finished(*slow)
