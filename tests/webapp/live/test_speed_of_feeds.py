"""Figures, printed and never judged by a clock: from the commit of an event to 200 sockets of a real server."""

import asyncio
import json
import socket as sockets
import time

import pytest
import uvicorn
import websockets

from webapp.accounts.models import User
from webapp.live.feeds import feeds
from webapp.runs.models import Run

from .conftest import As, Store, until

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
WATCHERS = 200
EVENTS = 50


async def test_from_commit_to_socket(user: User, live_run: Run, store: Store) -> None:
    listener = sockets.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        As(user),
        lifespan="off",
        log_config=None,
        log_level="warning",
        ws_per_message_deflate=False,
        ws="websockets-sansio",
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    await until(lambda: server.started)
    url = f"ws://127.0.0.1:{listener.getsockname()[1]}/ws/runs/{live_run.pk}/"
    clients = [await websockets.connect(url, compression=None) for _ in range(WATCHERS)]
    arrivals: dict[int, list[float]] = {}

    async def watch(client: websockets.ClientConnection) -> None:
        await client.send(json.dumps({"cursor": 0}))
        async for message in client:
            now = time.perf_counter()
            for cursor in range(json.loads(message)["from"] + 1, json.loads(message)["to"] + 1):
                arrivals.setdefault(cursor, []).append(now)

    watching = [asyncio.create_task(watch(client)) for client in clients]
    await until(lambda: len(feeds().of(live_run.pk)._sockets) == WATCHERS)
    committed: dict[int, float] = {}
    for _ in range(EVENTS):
        cursor = await store(1)
        committed[cursor] = time.perf_counter()
        await asyncio.sleep(0.12)
    await until(lambda: len(arrivals.get(EVENTS, [])) == WATCHERS)
    waits = sorted(at - committed[cursor] for cursor, moments in arrivals.items() for at in moments)
    assert len(waits) == EVENTS * WATCHERS
    reads = feeds().of(live_run.pk).reads
    print(
        f"\n{WATCHERS} sockets, {EVENTS} events, {reads} reads: p50 {waits[len(waits) // 2] * 1e3:.0f} ms, "
        f"p95 {waits[len(waits) * 95 // 100] * 1e3:.0f} ms, longest {waits[-1] * 1e3:.0f} ms"
    )
    for client in clients:
        await client.close()
    await asyncio.gather(*watching)
    server.should_exit = True
    await serving
