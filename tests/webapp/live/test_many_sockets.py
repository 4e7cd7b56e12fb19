"""Many sockets of a real server watch one run."""

import asyncio
import json
import socket as sockets
from collections import Counter
from typing import Any

import pytest
import uvicorn
import websockets

from webapp.accounts.models import User
from webapp.live.feeds import feeds
from webapp.runs.models import Run

from .conftest import As, Store, until

pytestmark = [pytest.mark.extended, pytest.mark.django_db(transaction=True)]
WATCHERS = 200
EVENTS = 50


async def test_many_sockets_receive_every_event_from_shared_reads(
    user: User, live_run: Run, store: Store
) -> None:
    listener = sockets.create_server(("127.0.0.1", 0))
    quiet: dict[str, Any] = {"lifespan": "off", "log_config": None, "log_level": "warning"}
    config = uvicorn.Config(
        As(user), ws_per_message_deflate=False, ws="webapp.live.frames:FrameProtocol", **quiet
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    await until(lambda: server.started)
    url = f"ws://127.0.0.1:{listener.getsockname()[1]}/ws/runs/{live_run.pk}/"
    clients = [await websockets.connect(url, compression=None) for _ in range(WATCHERS)]
    arrivals = Counter[int]()

    async def watch(client: websockets.ClientConnection) -> None:
        await client.send(json.dumps({"cursor": 0}))
        async for message in client:
            arrivals.update(range(json.loads(message)["from"] + 1, json.loads(message)["to"] + 1))

    watching = [asyncio.create_task(watch(client)) for client in clients]
    await until(lambda: len(feeds().of(live_run.pk)._sockets) == WATCHERS)
    direct = {outbox._write is not None for outbox in feeds().of(live_run.pk)._sockets}
    assert direct == {True}, "a message is framed once for all sockets"
    for _ in range(EVENTS):
        await store(1)
        await asyncio.sleep(0.12)
    await until(lambda: arrivals.total() >= EVENTS * WATCHERS)
    assert set(arrivals.values()) == {WATCHERS}
    assert feeds().of(live_run.pk).reads < WATCHERS, "one read serves all sockets"
    for client in clients:
        await client.close()
    await asyncio.gather(*watching)
    server.should_exit = True
    await serving
