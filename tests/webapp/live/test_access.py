"""Who may watch: sockets of members, strangers, ended sessions and visitors."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings as django_settings
from django.contrib.auth.models import AnonymousUser
from django.test import Client

from tests.end_to_end.seed import Story, encoded
from webapp.accounts.models import Membership, User
from webapp.accounts.services import member_remove, member_set
from webapp.ingest.services import batch_store
from webapp.live import access
from webapp.live.access import Pass, SameOrigin, access_watch, codes_of
from webapp.runs.models import Run
from webapp.shares.services import share_make, share_path, share_revoke

from .conftest import PATIENCE, As, Socket, Store, socket, watching

pytestmark = pytest.mark.django_db(transaction=True)


Act = Callable[[User, Run, Client], Any]


@pytest.fixture
def viewer(live_run: Run, stranger: User) -> User:
    Membership.objects.create(project=live_run.project, user=stranger, level="viewer")
    return stranger


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> None:
    """No look without a notice."""
    monkeypatch.setattr(access, "LOOK_AGAIN", 600.0)


def logged_in(user: User, path: str) -> tuple[Client, Socket]:
    """A browser's session, and its socket at the application as it is served."""
    from webapp.site.asgi import application

    client = Client()
    client.force_login(user)
    cookie = f"{django_settings.SESSION_COOKIE_NAME}={client.session.session_key}".encode()
    headers = [(b"origin", b"http://testserver"), (b"host", b"testserver"), (b"cookie", cookie)]
    return client, Socket(application, path, headers)


def remove(user: User, run: Run, _: Client) -> None:
    member_remove(run.owner, run.project, user.pk)


def log_out(_: User, run: Run, client: Client) -> None:
    client.post("/account/logout/")


def deactivate(user: User, run: Run, _: Client) -> None:
    user.is_active = False
    user.save()


def change_password(user: User, run: Run, _: Client) -> None:
    user.set_password("quite another long secret")
    user.save()


def delete_session(_: User, run: Run, client: Client) -> None:
    client.session.delete()


ENDS = [(remove, 4404), (log_out, 4401), (deactivate, 4401), (change_password, 4401), (delete_session, 4401)]


@pytest.mark.parametrize(("act", "code"), ENDS)
async def test_a_run_that_may_not_be_seen_closes_at_once(
    viewer: User, live_run: Run, far: None, act: Act, code: int
) -> None:
    client, watcher = await sync_to_async(logged_in)(viewer, f"/ws/runs/{live_run.pk}/")
    assert (await watcher.connect())[0]
    await _subscribed()
    await sync_to_async(act)(viewer, live_run, client)
    assert await watcher.receive_output(PATIENCE) == {"type": "websocket.close", "code": code}
    await watcher.disconnect()
    assert not access_watch()._sockets


@pytest.mark.parametrize(("act", "code"), ENDS[1:])
async def test_the_list_of_runs_closes_at_once(
    viewer: User, live_run: Run, far: None, act: Act, code: int
) -> None:
    client, watcher = await sync_to_async(logged_in)(viewer, "/ws/runs/")
    assert (await watcher.connect())[0]
    await _subscribed()
    await sync_to_async(act)(viewer, live_run, client)
    while (message := await watcher.receive_output(PATIENCE))["type"] == "websocket.send":
        pass
    assert message == {"type": "websocket.close", "code": code}
    await watcher.disconnect()


async def test_list_of_a_removed_member_tells_nothing_more(viewer: User, live_run: Run, store: Store) -> None:
    watcher = socket(viewer, "/ws/runs/")
    await watcher.connect()
    assert (await watcher.receive_json_from())["runs"][0]["id"] == live_run.pk
    await sync_to_async(member_remove)(live_run.owner, live_run.project, viewer.pk)
    await store(1)
    assert await watcher.receive_nothing(2.5)
    await watcher.disconnect()


async def test_a_lost_notice_is_made_up_for(
    viewer: User, live_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.live.feeds.CHANNEL", "nowhere")
    monkeypatch.setattr(access, "LOOK_AGAIN", 0.1)
    async with watching(viewer, live_run) as watcher:
        await sync_to_async(remove)(viewer, live_run, Client())
        assert await watcher.receive_output(PATIENCE) == {"type": "websocket.close", "code": 4404}


async def test_who_may_still_watch_goes_on(viewer: User, live_run: Run, store: Store, far: None) -> None:
    async with watching(live_run.owner, live_run, 0) as owner, watching(viewer, live_run, 0) as watcher:
        await _subscribed()
        await sync_to_async(member_set)(live_run.owner, live_run.project, viewer.username, "editor")
        await sync_to_async(member_remove)(live_run.owner, live_run.project, viewer.pk)
        assert (await watcher.receive_output(PATIENCE))["code"] == 4404
        await store(1)
        assert (await owner.receive_json_from())["to"] == 1


def test_many_passes_take_few_queries(
    viewer: User, live_run: Run, django_assert_max_num_queries: Any
) -> None:
    Client().force_login(viewer)
    passes = {
        Pass(user.pk, None, run) for user in (viewer, live_run.owner) for run in (None, live_run.pk, "gone")
    }
    with django_assert_max_num_queries(6):
        codes = codes_of(passes | {Pass(10**9, None, None), Pass(viewer.pk, "no-session", None)})
    gone = {Pass(user.pk, None, "gone"): 4404 for user in (viewer, live_run.owner)}
    assert codes == gone | {Pass(10**9, None, None): 4401, Pass(viewer.pk, "no-session", None): 4401}


async def test_sockets_that_come_and_go_leave_no_task(user: User, live_run: Run) -> None:
    """redis-py may lose the cancellation of a listener that still connects."""
    for _ in range(5):
        client = socket(user, f"/ws/runs/{live_run.pk}/")
        assert (await client.connect())[0]
        await client.disconnect()
    async with asyncio.timeout(PATIENCE):
        while any(task.get_name() in ("run changes", "access") for task in asyncio.all_tasks()):
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    "path", ["/ws/runs/\0/", "/ws/nothing/", "/ws/", "/ws/runs/a/b/", "/", "/ws/runs/\n/"]
)
async def test_odd_addresses_are_refused_without_an_error(user: User, live_run: Run, path: str) -> None:
    assert await socket(user, path).connect() == (False, 4404)


@pytest.mark.parametrize(
    ("origin", "host", "extra", "welcome"),
    [
        (b"http://testserver", b"testserver", {}, True),
        (b"http://testserver:8000", b"testserver:8000", {}, True),
        (b"http://testserver:80", b"testserver", {}, True),
        (b"http://testserver:9999", b"testserver:8000", {}, False),
        (b"http://testserver:9999", b"testserver", {}, False),
        (b"https://testserver", b"testserver", {}, False),
        (b"https://testserver", b"testserver", {"scheme": "wss"}, True),
        (b"http://other", b"testserver", {}, False),
        (b"http://evil.example", b"evil.example", {}, False),
        (b"null", b"testserver", {}, False),
        (b"", b"testserver", {}, False),
        (b"http://[", b"testserver", {}, False),
        (b"https://lab.example.org", b"testserver", {}, True),
        (b"https://a.wide.example.org", b"testserver", {}, True),
        (b"http://lab.example.org", b"testserver", {}, False),
        (b"https://lab.example.org:444", b"testserver", {}, False),
    ],
)  # fmt: skip
async def test_origins_are_compared_with_scheme_host_and_port(
    settings: Any, origin: bytes, host: bytes, extra: dict[str, str], welcome: bool
) -> None:
    settings.CSRF_TRUSTED_ORIGINS = ["https://lab.example.org", "https://*.wide.example.org"]
    assert await _let_in([(b"origin", origin), (b"host", host)], extra) is welcome


async def test_the_scheme_is_the_proxys_where_there_is_one(settings: Any) -> None:
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    headers = [(b"origin", b"https://testserver"), (b"host", b"testserver")]
    assert await _let_in([*headers, (b"x-forwarded-proto", b"https")], {})
    assert not await _let_in([*headers, (b"x-forwarded-proto", b"http")], {})


async def test_a_page_without_origin_is_not_let_in() -> None:
    assert not await _let_in([(b"host", b"testserver")], {})


async def _let_in(headers: list[tuple[bytes, bytes]], extra: dict[str, str]) -> bool:
    reached = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope)

    messages: list[dict[str, Any]] = [
        {"type": "websocket.disconnect", "code": 1006},
        {"type": "websocket.connect"},
    ]

    async def receive() -> dict[str, Any]:
        return messages.pop()  # the last first

    async def send(message: Any) -> None:
        assert message["type"] == "websocket.close"

    scope = {"type": "websocket", "path": "/ws/runs/", "headers": headers, **extra}
    await SameOrigin(application)(scope, receive, send)
    return bool(reached)


async def _subscribed() -> None:
    """Wait until the listener hears notices: looks that follow come from them alone."""
    watch = access_watch()
    async with asyncio.timeout(PATIENCE):
        while watch._woken.is_set() or not watch.looks:
            await asyncio.sleep(0.01)


class Visiting(As):
    """The socket of a browser that has a session and no login."""

    def __init__(self, session: Any) -> None:
        super().__init__(AnonymousUser())
        self.session = session

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> Any:
        return await super().__call__({**scope, "session": self.session}, receive, send)


def followed(secret: str) -> Any:
    """The session of a browser that has followed the link."""
    browser = Client()
    browser.get(share_path(secret))
    return browser.session


async def test_visitor_gets_run_without_its_log_and_people(user: User, live_run: Run, store: Store) -> None:
    share, secret = await sync_to_async(share_make)(user, live_run.project, "run", live_run.pk)
    session = await sync_to_async(followed)(secret)
    other = await sync_to_async(Run.objects.create)(
        project=live_run.project, owner=user, name="other", config=live_run.config, iterations=1
    )
    refused = Socket(Visiting(session), f"/ws/runs/{other.pk}/", [])
    assert await refused.connect() == (False, 4401)
    refused = Socket(Visiting(session), "/ws/runs/", [])
    assert await refused.connect() == (False, 4401)

    client = Socket(Visiting(session), f"/ws/runs/{live_run.pk}/", [])
    assert (await client.connect())[0]
    await sync_to_async(batch_store)(live_run.pk, encoded(Story(live_run.pk).opening()), "")
    await client.send_json_to({"cursor": 0})
    delta = await client.receive_json_from()
    assert await sync_to_async(live_run.log_lines.count)() > 0
    assert delta["log"] == 0 and delta["to"] > 0 and delta["run"]["state"] == "running"
    assert not {"owner", "project", "links"} & delta["run"].keys()

    await sync_to_async(share_revoke)(user, share)
    answer = await client.receive_output(PATIENCE)
    assert (answer["type"], answer.get("code")) == ("websocket.close", 4404)
    await client.disconnect()
