"""Bodies of requests: how much of one is read, when, and for whom."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from django.conf import settings
from django.test import Client as Browser

from tests.webapp.site.world import World
from webapp.accounts.models import Membership, User
from webapp.accounts.tokens import token_create
from webapp.site import bodies
from webapp.site.bodies import PART, Bodies, Received
from webapp.site.callers import FORM, UPLOADS, Refused, caller_check, limit_of
from webapp.site.handler import THREADS
from webapp.stack.connections import Waiting

EVENTS, CONTENTS, FILES, DATA = UPLOADS
LEFT = {"type": "http.disconnect"}


class Client:
    """One request, whose parts are sent by the test."""

    def __init__(
        self, app: Any, announced: int | None = None, path: str = "/account/login/", address: str = "a"
    ) -> None:
        self.read = 0
        """Messages taken before the answer."""
        self.status = 0
        self.body = b""
        self._parts: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
        headers = [] if announced is None else [(b"content-length", b"%d" % announced)]
        self.scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "headers": headers,
            "client": (address, 1),
        }
        self.task = asyncio.create_task(app(self.scope, self._receive, self._send))

    def send(self, part: bytes, more: bool = True) -> None:
        self._parts.put_nowait({"type": "http.request", "body": part, "more_body": more})

    def leave(self) -> None:
        self._parts.put_nowait(LEFT)

    async def done(self) -> int:
        """The status of the answer; 0 without one."""
        await asyncio.wait_for(self.task, 60)
        return self.status

    async def _receive(self) -> MutableMapping[str, Any]:
        self.read += not self.status
        return await self._parts.get()

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        self.status = message.get("status", self.status)
        self.body += message.get("body", b"")


async def length(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the length of the body."""
    assert isinstance(receive, Received)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"%d" % len(receive.file.read())})


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "caller_check", lambda scope: "ada")


@pytest.fixture
def stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(scope: Any) -> object:
        raise Refused(401, "unauthenticated", "log in")

    monkeypatch.setattr(bodies, "caller_check", refuse)


async def test_unfinished_bodies_hold_nobody_up() -> None:
    app = Bodies(length)
    slow = [Client(app, 1000) for _ in range(2 * THREADS)]
    for client in slow:
        client.send(b"x")
    other = Client(app)
    other.send(b"123", more=False)
    assert (await other.done(), other.body) == (200, b"3")
    for client in slow:
        client.leave()
    assert [await client.done() for client in slow] == [0] * len(slow)


async def test_a_large_body_of_an_unknown_caller_is_not_read(stranger: None) -> None:
    client = Client(Bodies(length), PART + 1)
    client.leave()
    assert (await client.done(), client.read) == (401, 0)
    assert client.body == b'{"code": "unauthenticated", "detail": "log in"}'
    client = Client(
        Bodies(length), PART + 1, "/mlflow/api/2.0/mlflow-artifacts/artifacts/abcd2345/artifacts/x"
    )
    client.leave()
    await client.done()
    assert client.body == b'{"error_code": "UNAUTHENTICATED", "message": "log in"}'


async def test_a_body_of_unknown_length_is_read_until_it_is_large(stranger: None) -> None:
    client = Client(Bodies(length))
    for _ in range(5):
        client.send(bytes(PART // 2))
    client.leave()
    assert (await client.done(), client.read) == (401, 3)


async def test_a_large_body_of_a_known_caller_arrives(known: None) -> None:
    client = Client(Bodies(length), 3 * PART)
    for number in range(3):
        client.send(bytes(PART), more=number < 2)
    assert (await client.done(), client.body) == (200, b"%d" % (3 * PART))


async def test_a_body_beyond_the_limit_of_its_address_is_refused(known: None) -> None:
    client = Client(Bodies(length))
    for _ in range(2 + settings.DATA_UPLOAD_MAX_MEMORY_SIZE // PART):
        client.send(bytes(PART))
    client.leave()
    assert await client.done() == 413


async def test_a_body_that_does_not_arrive_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "SECONDS", 0.05)
    client = Client(Bodies(length), 10)
    client.send(b"x")
    assert await client.done() == 408


async def test_each_part_of_a_slow_body_has_a_deadline_of_its_own(
    known: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[float] = []

    class Deadline:
        def reschedule(self, when: float) -> None:
            moved.append(when)

    @asynccontextmanager
    async def timeout(seconds: float) -> AsyncIterator[Deadline]:
        yield Deadline()

    monkeypatch.setattr(bodies.asyncio, "timeout", timeout)
    client = Client(Bodies(length), 4 * PART)
    for number in range(8):
        client.send(bytes(PART // 2), more=number < 7)
    assert await client.done() == 200
    assert len(moved) == 4 and moved == sorted(moved)


async def test_beyond_their_number_the_oldest_unfinished_body_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "UNKNOWN_OF_ADDRESS", 2)
    app = Bodies(length)
    other, *many = [Client(app, 10, address=address) for address in ("b", "a", "a", "a")]
    assert await many[0].done() == 408
    for client in (other, *many[1:]):
        client.send(b"12345", more=False)
        assert await client.done() == 200


def test_waiting_ends_the_oldest_of_the_client_or_of_all() -> None:
    ended: list[str] = []
    waiting = Waiting(3, 2)
    for which in ("a1", "a2", "b1", "a3", "c1", "d1"):
        waiting.add(which, which[0], lambda which=which: ended.append(which))  # type: ignore[misc]
    assert ended == ["a1", "a2", "b1"] and len(waiting) == 3
    waiting.remove("c1")
    waiting.remove("b1")
    waiting.add("c2", "c", lambda: ended.append("c2"))
    assert len(waiting) == 3 and len(ended) == 3


PATHS = {
    EVENTS: "/api/v1/runs/{run}/events/",
    CONTENTS: "/api/v1/projects/{slug}/artifact-contents/ab/",
    FILES: "/mlflow/{slug}/api/2.0/mlflow-artifacts/artifacts/{run}/artifacts/a/b.bin",
    DATA: "/experiments/data/",
}


@pytest.mark.parametrize("prefix", ["/mlflow/lab", "/mlflow", ""])
def test_files_of_mlflow_have_three_addresses(prefix: str) -> None:
    path = f"{prefix}/api/2.0/mlflow-artifacts/artifacts/abcd2345/artifacts/a/b.bin"
    assert limit_of({"path": path, "method": "PUT"}) == FILES.most
    assert set(Refused(401, "unauthenticated", "log in").document(path)) == {"error_code", "message"}


@pytest.mark.parametrize("upload", UPLOADS)
def test_limits_follow_the_address(upload: Any) -> None:
    scope = {"path": PATHS[upload].format(run="abcd2345", slug="lab"), "method": upload.method}
    assert limit_of(scope) == upload.most > settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    assert limit_of(scope | {"method": "PATCH"}) == settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    assert DATA.most > FORM


def told(path: str, method: str, header: tuple[bytes, str] | None) -> int:
    """200, or the status of the refusal."""
    headers = [(header[0], header[1].encode())] if header else []
    try:
        caller_check({"type": "http", "path": path, "method": method, "headers": headers})
    except Refused as refused:
        return refused.status
    return 200


@pytest.fixture
def callers(worlds: tuple[World, World]) -> dict[str, tuple[bytes, str] | None]:
    """Name -> the header of one."""
    mine, theirs = worlds
    viewer = User.objects.create_user("sees")
    Membership.objects.create(project=mine.project, user=viewer, level=Membership.Level.VIEWER)
    run = str(mine.things["run"])

    def token(user: User, scope: str, **limits: Any) -> tuple[bytes, str]:
        return b"authorization", f"Bearer {token_create(user, 't', [scope], **limits)[1]}"

    password = b64encode(f"ada:{token_create(mine.owner, 'password', ['launch'])[1]}".encode()).decode()

    browser = Browser()
    browser.force_login(mine.owner)
    return {
        "nobody": None,
        "wrong token": (b"authorization", "Bearer troupe_" + "x" * 43),
        "wrong session": (b"cookie", f"{settings.SESSION_COOKIE_NAME}=abc"),
        "session": (b"cookie", f"{settings.SESSION_COOKIE_NAME}={browser.cookies[settings.SESSION_COOKIE_NAME].value}"),
        "launch": token(mine.owner, "launch"),
        "password": (b"authorization", f"Basic {password}"),
        "read": token(mine.owner, "read"),
        "viewer": token(viewer, "launch"),
        "other": token(theirs.owner, "launch"),
        "own run": token(mine.owner, "ingest", run_id=run),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("upload", "passing", "unknown"),
    [
        (EVENTS, {"launch", "own run"}, {"nobody", "wrong token", "wrong session", "session", "password"}),
        (CONTENTS, {"launch", "password", "session"}, {"nobody", "wrong token", "wrong session"}),
        (FILES, {"launch", "password", "session"}, {"nobody", "wrong token", "wrong session"}),
        (DATA, {"launch", "password", "session", "other"}, {"nobody", "wrong token", "wrong session"}),
        (None, {"launch", "password", "session", "other", "read", "viewer", "own run"}, {"nobody", "wrong token", "wrong session"}),
    ],
)  # fmt: skip
def test_large_bodies_are_of_callers_who_may_write_there(
    upload: Any, passing: set[str], unknown: set[str], callers: Any, worlds: tuple[World, World]
) -> None:
    things = worlds[0].things
    path = PATHS[upload].format(run=things["run"], slug=things["slug"]) if upload else "/api/v1/runs/"
    method = upload.method if upload else "POST"
    statuses = {name: told(path, method, header) for name, header in callers.items()}
    assert {name for name, status in statuses.items() if status == 200} == passing
    assert {name for name, status in statuses.items() if status == 401} == unknown
    assert set(statuses.values()) <= {200, 401, 403, 404}
