"""Bodies beyond the limit are refused, however they are sent; CSV files contain text, not formulas."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from workers.http import BodyLimit, Receive, Send, cell_text


@pytest.mark.parametrize(
    "text", ['=HYPERLINK("http://evil.example","x")', "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "-"]
)
def test_formulas_are_quoted(text: str) -> None:
    assert cell_text(text) == f"'{text}"


@pytest.mark.parametrize("value", ["a=b", "", "planner", "-0.5", "-Infinity", "+3e4", -1.5, 3, None, True])
def test_other_values_stay_as_they_are(value: object) -> None:
    assert cell_text(value) is value


MOST = 10


class Client:
    """One request in these parts, and what was read of it and answered."""

    def __init__(self, *parts: bytes, announced: int | None = None) -> None:
        self.parts = list(parts)
        self.read = 0
        self.sent: list[MutableMapping[str, Any]] = []
        headers = [] if announced is None else [(b"content-length", str(announced).encode())]
        self.scope = {"type": "http", "headers": headers}

    async def receive(self) -> MutableMapping[str, Any]:
        part = self.parts[self.read]
        self.read += 1
        return {"type": "http.request", "body": part, "more_body": self.read < len(self.parts)}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.sent.append(message)

    def ask(self, app: Any) -> tuple[int, bytes]:
        """Status and body of the answer."""
        asyncio.run(BodyLimit(app, MOST, lambda said: {"told": said})(self.scope, self.receive, self.send))
        start, body = self.sent
        return start["status"], body["body"]


async def echo(scope: Any, receive: Receive, send: Send) -> None:
    """Answers with the body, as a server of ours does; with nothing to a client that left."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body, more = body + message["body"], message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


async def clumsy(scope: Any, receive: Receive, send: Send) -> None:
    """Answers whatever happens, and then fails."""
    while (message := await receive())["type"] == "http.request" and message["more_body"]:
        pass
    await send({"type": "http.response.start", "status": 500, "headers": []})
    raise OSError("the client left")


REFUSED = (413, b'{"told": "the body of a request may have at most 10 bytes"}')


@pytest.mark.parametrize("parts", [(b"12345", b"67890"), (b"",), (b"1234567890",)])
def test_small_bodies_pass(parts: tuple[bytes, ...]) -> None:
    whole = b"".join(parts)
    assert Client(*parts).ask(echo) == (200, whole)
    assert Client(*parts, announced=len(whole)).ask(echo) == (200, whole)


def test_a_too_large_content_length_is_refused_unread() -> None:
    client = Client(b"x" * 11, announced=11)
    assert client.ask(echo) == REFUSED
    assert client.read == 0


@pytest.mark.parametrize("app", [echo, clumsy])
def test_chunks_are_read_up_to_the_limit_only(app: Any) -> None:
    client = Client(*[b"123456"] * 100)
    assert client.ask(app) == REFUSED
    assert client.read == 2


def test_an_applications_own_failure_stays_its_own() -> None:
    with pytest.raises(OSError, match="the client left"):
        Client(b"1").ask(clumsy)
