"""Connections without a request: new ones and kept ones."""

import asyncio
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from webapp.stack import connections
from webapp.stack.connections import HttpProtocol, Waiting

HEAD = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


class Transport(asyncio.Transport):
    """The server's side of a connection from an address."""

    def __init__(self, address: str) -> None:
        super().__init__({"peername": (address, 1)})
        self.closed, self.written = False, b""

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def pause_reading(self) -> None:
        """The test sends at once."""

    def resume_reading(self) -> None:
        """The test sends at once."""

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


async def answer(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


def connect(address: str = "a") -> tuple[HttpProtocol, Transport]:
    config = uvicorn.Config(answer, lifespan="off", log_config=None, ws="none")
    protocol, transport = HttpProtocol(config, ServerState(), {}), Transport(address)
    protocol.connection_made(transport)
    return protocol, transport


@pytest.fixture(autouse=True)
def waiting(monkeypatch: pytest.MonkeyPatch) -> Waiting:
    waiting = Waiting(10, 2)
    monkeypatch.setattr(HttpProtocol, "waiting", waiting)
    return waiting


async def test_the_oldest_connection_without_a_request_is_closed(waiting: Waiting) -> None:
    many = [connect() for _ in range(3)]
    assert [transport.closed for _, transport in many] == [True, False, False]
    assert not connect("b")[1].closed
    for protocol, _ in many:
        protocol.connection_lost(None)
    assert len(waiting) == 1


async def test_a_connection_with_a_request_does_not_wait(waiting: Waiting) -> None:
    protocol, transport = connect()
    assert len(waiting) == 1
    protocol.data_received(HEAD[:20])
    assert len(waiting) == 1, "the head is not complete"
    protocol.data_received(HEAD[20:])
    assert len(waiting) == 0
    await asyncio.gather(*protocol.tasks)
    assert transport.written.startswith(b"HTTP/1.1 204") and len(waiting) == 1, "kept for the next request"
    protocol.data_received(HEAD + HEAD)
    while protocol.tasks:
        await asyncio.gather(*protocol.tasks)
    assert transport.written.count(b"HTTP/1.1 204") == 3 and len(waiting) == 1


async def test_a_head_that_does_not_arrive_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.01)
    protocol, transport = connect()
    protocol.data_received(HEAD[:20])
    while not transport.closed:
        await asyncio.sleep(0.005)
