"""Live feeds over real Redis: in order, without gaps, read once for all, whatever is lost on the way."""

import asyncio
import json
import random
import time
from typing import Any

import pytest
import redis
from asgiref.sync import sync_to_async
from django.conf import settings as django_settings
from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from webapp.accounts.models import User
from webapp.common.run_changes import CHANNEL, INTERVAL, RunChangePublisher, publish_change
from webapp.live import feeds as feeds_module
from webapp.live.deltas import delta_read
from webapp.live.feeds import Outbox, RunChangeListener, feeds
from webapp.runs.models import Run

from .conftest import PATIENCE, Socket, Store, socket, until, watching

pytestmark = pytest.mark.django_db(transaction=True)


def points(delta: dict[str, Any], key: str = "a") -> list[int]:
    return [point[0] for point in delta["points"][key]]


async def test_deltas_follow_one_another(user: User, live_run: Run, store: Store) -> None:
    async with watching(user, live_run, 0) as client:
        cursor, steps = 0, []
        for _ in range(5):
            await store(2)
            while cursor < (await sync_to_async(Run.objects.get)(pk=live_run.pk)).event_count:
                delta = await client.receive_json_from()
                if delta["to"] > delta["from"]:
                    assert (delta["type"], delta["from"]) == ("delta", cursor)
                    cursor = delta["to"]
                    steps += points(delta)
        assert steps == list(range(1, 11))
        assert delta["run"]["id"] == live_run.pk


async def test_a_late_page_gets_exactly_what_it_lacks(user: User, live_run: Run, store: Store) -> None:
    await store(3)
    await store(4)
    await store(1)
    async with watching(user, live_run, 3) as client:
        delta = await client.receive_json_from()
        assert (delta["from"], delta["to"], points(delta)) == (3, 8, [4, 5, 6, 7, 8])
        await client.send_json_to({"cursor": 7})  # it lost something and says so
        delta = await client.receive_json_from()
        assert (delta["from"], delta["to"], points(delta)) == (7, 8, [8])


async def test_page_that_knows_more_than_feed(user: User, live_run: Run, store: Store, quiet: None) -> None:
    async with watching(user, live_run, 0) as early:
        await until(lambda: feeds().of(live_run.pk).cursor == 0)
        await store(2)  # no hint arrives, the feed has not read it
        async with watching(user, live_run, 2) as late:
            assert points(await early.receive_json_from()) == [1, 2]
            assert await late.receive_nothing(0.3)


async def test_a_cursor_from_the_future_resyncs(user: User, live_run: Run, store: Store) -> None:
    await store(2)
    async with watching(user, live_run, 999) as client:
        assert await client.receive_json_from() == {"type": "resync", "cursor": 2}


async def test_too_many_points_resync(user: User, live_run: Run, store: Store) -> None:
    cursor = await store(101, {f"k{i}": 1.0 for i in range(50)})
    async with watching(user, live_run, 0) as client:
        assert await client.receive_json_from() == {"type": "resync", "cursor": cursor}
        await store()
        delta = await client.receive_json_from()
        assert (delta["from"], delta["to"]) == (cursor, cursor + 1)


async def test_fifty_sockets_one_read(user: User, live_run: Run, store: Store, quiet: None) -> None:
    subscribed = asyncio.Event()

    def note(run_id: str) -> None:
        subscribed.set()

    feeds().listener.add(note)
    await subscribed.wait()  # a subscription that stands later causes a read
    clients = [socket(user, f"/ws/runs/{live_run.pk}/") for _ in range(50)]
    for client in clients:
        assert (await client.connect())[0]
        await client.send_json_to({"cursor": 0})
    feed = feeds().of(live_run.pk)
    await until(lambda: len(feed._sockets) == 50)
    assert feed.reads == 1, "for the first socket"
    await store(3)
    feed.notify()
    texts = [await client.receive_from() for client in clients]
    assert feed.reads == 2
    assert set(texts) == {texts[0]}
    assert points(json.loads(texts[0])) == [1, 2, 3]
    for client in clients:
        await client.disconnect()
    assert not feeds()._feeds
    feeds().listener.remove(note)


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No hints arrive, and feeds do not look for themselves."""
    monkeypatch.setattr("webapp.live.feeds.CHANNEL", "nowhere")
    monkeypatch.setattr(feeds_module, "LOOK_ANYWAY", 60.0)


async def test_lost_hints_lose_nothing(
    user: User, live_run: Run, store: Store, quiet: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds_module, "LOOK_ANYWAY", 0.05)
    async with watching(user, live_run, 0) as client:
        await store(2)
        assert points(await client.receive_json_from()) == [1, 2]


async def test_no_viewer_loses_an_update_when_notices_and_messages_are_dropped(
    user: User, live_run: Run, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three of four hints never arrive, and every viewer loses messages of its own: it goes by its cursor, as live.js does."""
    draw, updates, viewers, dropped = random.Random(7), 40, 20, {"hints": 0, "messages": 0}
    heard = RunChangeListener._tell

    def lossy(listener: RunChangeListener, run_id: str) -> None:
        if draw.random() < 0.75:
            dropped["hints"] += 1
        else:
            heard(listener, run_id)

    monkeypatch.setattr(RunChangeListener, "_tell", lossy)
    monkeypatch.setattr(feeds_module, "LOOK_ANYWAY", 0.1)

    async def view() -> list[int]:
        seen: list[int] = []
        cursor = 0
        async with watching(user, live_run, cursor) as client:
            while cursor < updates:
                delta = await client.receive_json_from(PATIENCE)
                assert delta["type"] == "delta"
                if delta["to"] < updates and draw.random() < 0.3:
                    dropped["messages"] += 1
                elif delta["from"] > cursor:
                    await client.send_json_to({"cursor": cursor})
                else:
                    cursor = max(cursor, delta["to"])
                    seen += points(delta) if "a" in delta["points"] else []
        return seen

    watchers = [asyncio.create_task(view()) for _ in range(viewers)]
    feed = feeds().of(live_run.pk)
    await until(lambda: len(feed._sockets) == viewers)
    for _ in range(updates // 5):
        for _ in range(5):
            cursor = await store(1)
        await until(lambda: feed.cursor == cursor)  # noqa: B023  # called before the next one
    for seen in await asyncio.gather(*watchers):
        assert sorted(set(seen)) == list(range(1, updates + 1))
    assert dropped["hints"] > 0 and dropped["messages"] > 5


async def test_a_change_of_state_alone_is_told(user: User, live_run: Run) -> None:
    async with watching(user, live_run, 0) as client:
        await until(lambda: feeds().of(live_run.pk).cursor == 0)
        await until(_subscribed)
        await sync_to_async(Run.objects.filter(pk=live_run.pk).update)(state="running")
        publish_change(live_run.pk, 0)
        delta = await client.receive_json_from()
        assert (delta["from"], delta["to"], delta["run"]["state"]) == (0, 0, "running")


def _subscribed() -> bool:
    client = redis.Redis.from_url(django_settings.REDIS_URL)
    try:
        return bool(client.pubsub_numsub(CHANNEL)[0][1])
    finally:
        client.close()


async def test_hints_reach_sockets_before_the_feed_looks_and_again_after_redis_has_hung_up(
    user: User, live_run: Run, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds_module, "LOOK_ANYWAY", 60.0)
    async with watching(user, live_run, 0) as client:
        await until(_subscribed)
        await store(1)
        assert points(await client.receive_json_from(30)) == [1]
        _hang_up()
        await until(_subscribed)
        await store(1)
        assert points(await client.receive_json_from(30)) == [2]


def _hang_up() -> None:
    """End every connection of the server but our own, as a restart does."""
    client = redis.Redis.from_url(django_settings.REDIS_URL)
    for kind in ("pubsub", "normal"):
        client.client_kill_filter(_type=kind, skipme=True)
    client.close()


async def test_strangers_are_turned_away(stranger: User, live_run: Run) -> None:
    for user, path, code in [
        (stranger, f"/ws/runs/{live_run.pk}/", 4404),
        (stranger, "/ws/runs/nothing/", 4404),
        (AnonymousUser(), f"/ws/runs/{live_run.pk}/", 4401),
        (AnonymousUser(), "/ws/runs/", 4401),
    ]:
        assert await socket(user, path).connect() == (False, code)


async def test_a_session_opens_the_real_application(user: User, live_run: Run, store: Store) -> None:
    from webapp.site.asgi import application

    await store(2)
    client = Client()
    await sync_to_async(client.force_login)(user)
    name = django_settings.SESSION_COOKIE_NAME
    cookie = f"{name}={client.cookies[name].value}".encode()
    headers = [(b"origin", b"http://testserver"), (b"host", b"testserver")]
    for extra, accepted in ([(b"cookie", cookie)], True), ([], False):
        watcher = Socket(application, f"/ws/runs/{live_run.pk}/", headers + extra)
        assert (await watcher.connect())[0] is accepted
        if accepted:
            await watcher.send_json_to({"cursor": 0})
            assert points(await watcher.receive_json_from()) == [1, 2]
            await watcher.disconnect()


@pytest.mark.parametrize(
    "text", ["", "x", "[]", "{}", '{"cursor": -1}', '{"cursor": "1"}', '{"cursor": true}', "{" * 300]
)
async def test_odd_messages_close_the_socket(user: User, live_run: Run, text: str) -> None:
    client = socket(user, f"/ws/runs/{live_run.pk}/")
    await client.connect()
    await client.send_text(text)
    assert (await client.receive_output(PATIENCE)) == {"type": "websocket.close", "code": 4400}
    await client.disconnect()


async def test_the_list_tells_only_what_one_may_see(
    user: User, stranger: User, live_run: Run, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.live.runs_feed.INTERVAL", 0.02)
    mine, theirs = socket(user, "/ws/runs/"), socket(stranger, "/ws/runs/")
    for client in (mine, theirs):
        assert (await client.connect())[0]
    await until(_subscribed)
    await store(1)
    message = await mine.receive_json_from()
    assert message["type"] == "runs"
    assert [run["id"] for run in message["runs"]] == [live_run.pk]
    assert await theirs.receive_nothing(0.2)
    for client in (mine, theirs):
        await client.disconnect()


async def test_the_list_notices_without_hints(
    user: User, live_run: Run, quiet: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.live.runs_feed.INTERVAL", 0.02)
    client = socket(user, "/ws/runs/")
    assert (await client.connect())[0]
    assert (await client.receive_json_from())["runs"][0]["state"] == "queued"
    await sync_to_async(Run.objects.filter(pk=live_run.pk).update)(state="running")
    assert (await client.receive_json_from())["runs"][0]["state"] == "running"
    await client.disconnect()


class TestOutbox:
    async def test_a_slow_socket_falls_back_to_resync(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(feeds_module, "MAX_MESSAGES", 3)
        open_, sent = asyncio.Event(), []

        async def send(text: str) -> None:
            await open_.wait()
            sent.append(text)

        outbox = Outbox(send)
        outbox.put("first", 1)
        await asyncio.sleep(0)  # it is taken by the task, which now waits for the socket
        for cursor in range(2, 6):
            outbox.put(f"m{cursor}", cursor)
        outbox.put("m6", 6)
        open_.set()
        await until(lambda: len(sent) == 3)
        assert sent == ["first", '{"type":"resync","cursor":5}', "m6"]
        outbox.close()

    async def test_a_slow_socket_without_a_cursor_is_closed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(feeds_module, "MAX_MESSAGES", 1)
        open_, sent, closed = asyncio.Event(), [], asyncio.Event()

        async def send(text: str) -> None:
            await open_.wait()
            sent.append(text)

        async def close() -> None:
            closed.set()

        outbox = Outbox(send, close)
        outbox.put("first", 0)
        await asyncio.sleep(0)
        outbox.put("second", 0)
        outbox.put("third", 0)
        open_.set()
        await asyncio.wait_for(closed.wait(), PATIENCE)
        assert sent == ["first"]
        outbox.close()


class TestHints:
    def test_hints_of_a_run_are_coalesced(self, settings: Any) -> None:
        sent: list[tuple[str, int, float]] = []
        publisher = RunChangePublisher(settings.REDIS_URL)
        publisher._publish = lambda run, cursor: sent.append((run, cursor, time.monotonic()))  # type: ignore[method-assign]
        began = time.monotonic()
        cursor = 0
        while len(sent) < 20:
            cursor += 1
            publisher.give("one", cursor)
            publisher.give("two", cursor)
            time.sleep(0.001)
        while {run: at for run, at, _ in sent} != {"one": cursor, "two": cursor}:
            time.sleep(0.01)
        ones = [moment for run, _, moment in sent if run == "one"]
        assert all(moment - began >= place * INTERVAL for place, moment in enumerate(ones))

    def test_redis_away_is_nobodys_error(self, tmp_path: Any) -> None:
        publisher = RunChangePublisher(f"unix://{tmp_path}/none.sock")
        for cursor in range(100):
            publisher.give("one", cursor)
        while publisher._pending or not publisher._complained:
            time.sleep(0.01)
        assert publisher._sent, "it goes on without Redis"


async def test_a_delta_of_metrics_needs_few_queries(live_run: Run, store: Store) -> None:
    await store(2)
    end = await store(1, {"a": 1.0, "b": "NaN"})

    def read() -> tuple[dict[str, Any], int]:
        with CaptureQueriesContext(connection) as asked:
            delta = delta_read(live_run.pk, end - 1)
        assert delta
        return json.loads(delta.text), len(asked)

    message, queries = await sync_to_async(read)()
    assert message["points"] == {"a": [[3, 1.0, 3.0, 1]], "b": [[3, "NaN", 3.0, 1]]}
    assert queries <= 4, "run, attempts, news, points"
