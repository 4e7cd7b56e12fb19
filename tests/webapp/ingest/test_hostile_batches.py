"""A real web server process under hostile batches: its memory stays bounded, and others are answered meanwhile."""

import json
import os
import random
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread
from typing import Any

import httpx
import psutil
import pytest
import zstandard
from django.conf import settings
from django.db import connection

from tests.conftest import REDIS, SOCKETS, wait_until
from webapp.accounts.tokens import token_create
from webapp.runs.models import Run
from webapp.stack.processes import dies_with_parent
from webapp.stack.servers import redis_url

pytestmark = [pytest.mark.extended, pytest.mark.django_db(transaction=True)]
MOST_MEMORY = 600 << 20
AT_ONCE = 4
ROUNDS = 2


class Server:
    """`webapp.stack.serve` on a port of its own, on the tests' database."""

    def __init__(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        name = connection.settings_dict["NAME"]
        environment = os.environ | {
            "DATABASE_URL": f"postgres://troupe@/{name}?host={SOCKETS}",
            "REDIS_URL": redis_url(REDIS),
            "TROUPE_SECRET_KEY": settings.SECRET_KEY,
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "webapp.stack.serve", str(listener.fileno())],
            env=environment,
            pass_fds=[listener.fileno()],
            preexec_fn=dies_with_parent(),
        )
        listener.close()
        wait_until(self._answers, [self.process])

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/healthz", timeout=5, trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(60)


class Watch:
    """Meanwhile: the process's memory, and how somebody else is answered."""

    def __init__(self, server: Server, headers: dict[str, str]) -> None:
        self.peak, self.answered, self.wrong = 0, 0, list[int]()
        self._ended = Event()
        self._threads = [
            Thread(target=self._measure, args=[psutil.Process(server.process.pid)]),
            Thread(target=self._visit, args=[server.url, headers]),
        ]
        for thread in self._threads:
            thread.start()

    def _measure(self, process: psutil.Process) -> None:
        while not self._ended.wait(0.02):
            self.peak = max(self.peak, process.memory_info().rss)

    def _visit(self, url: str, headers: dict[str, str]) -> None:
        with httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False) as client:
            while not self._ended.wait(0.05):
                status = client.get("/api/v1/runs/").status_code
                self.answered += 1
                self.wrong += [status] if status != 200 else []

    def close(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    try:
        yield running
    finally:
        running.close()


def hostile(run: Run) -> dict[str, bytes]:
    """Bodies before compression, by what is hostile about them."""
    head = {"run": run.pk, "attempt": 1, "time": 1.0, "seq": 1}

    def line(producer: str, **fields: Any) -> bytes:
        return json.dumps(head | {"producer": producer} | fields).encode()

    def within(producer: str, facts: bytes) -> bytes:
        empty = line(producer, type="status", state="running", iteration=0, facts={})
        return empty.replace(b'"facts": {}', b'"facts": {"a": ' + facts + b"}")

    lists = [b"[" + b",".join([b"[]"] * count) + b"]" for count in (900_000, 10_000_000, 20_000_000)]
    numbers = random.Random(0).sample(range(1 << 30), 100_000)
    tokens = json.dumps(numbers).encode()[1:-1]
    candidate = b'"candidates": [{"token_ids": [' + b",".join([tokens] * 19) + b"]}]"
    turn = line("tokens", type="episode", turns=[{"candidates": 0}]).replace(b'"candidates": 0', candidate)
    values = {f"m{number}": 1.0 for number in range(60_000)}
    many = b"\n".join(
        line("names", type="metrics", step=1, seq=1 + part, values={f"n{part}/{n}": 1.0 for n in range(1000)})
        for part in range(60)
    )
    return {
        "facts just parsed": within("a", lists[0]),
        "facts of 30 MB": within("b", lists[1]),
        "facts of 60 MB": within("c", lists[2]),
        "objects": within("d", b"[" + b",".join([b"{}"] * 390_000) + b"]"),
        "deep": within("e", b"[" * 900 + b"]" * 900),
        "deeper than the parser": within("f", b"[" * 3_000_000),
        "60,000 names in one event": line("g", type="metrics", step=1, values=values),
        "60,000 names in 60 events": many,
        "a text of 30 MB": line("h", type="log", level="info", source="s", message="x" * 30_000_000),
        "a name of 30 MB": line("i", type="metrics", step=1, values={"x" * 30_000_000: 1.0}),
        "1.9 million tokens": turn,
        "unknown fields": line("j", type="heartbeat", iteration=1, **{f"k{n}": 1 for n in range(390_000)}),
    }


def test_memory_is_bounded_and_others_are_answered(
    server: Server, run: Run, token: str, attempt: Any
) -> None:
    headers = {"Authorization": f"Bearer {token_create(run.owner, 'a', ['read'])[1]}"}
    sent = {name: zstandard.compress(body) for name, body in hostile(run).items()}
    assert len(sent["facts of 30 MB"]) < 4000
    watch = Watch(server, headers)
    try:
        with ThreadPoolExecutor(AT_ONCE) as senders, httpx.Client(timeout=120, trust_env=False) as client:
            given = {"Authorization": f"Bearer {token}", "Content-Encoding": "zstd"}

            def post(body: bytes) -> int:
                url = f"{server.url}/api/v1/runs/{run.pk}/events/"
                return client.post(url, content=body, headers=given).status_code

            answers = dict(zip(sent, senders.map(post, sent.values()), strict=True))
            again = list(senders.map(post, [*sent.values()] * (ROUNDS - 1)))
    finally:
        watch.close()
    assert watch.peak < MOST_MEMORY, f"{watch.peak >> 20} MiB: {answers}"
    assert watch.answered and not watch.wrong
    assert set(answers.values()) | set(again) <= {200, 400, 413, 503}, answers
    taken = {name for name, status in answers.items() if status == 200}
    assert taken <= {"60,000 names in 60 events"}
    run.refresh_from_db()
    assert run.series.count() in (0, 60_000)


@pytest.mark.parametrize("announced", [True, False])
@pytest.mark.parametrize(
    "path", ["/account/login/", "/api/v1/jobs/", "/runs/views/", "/api/v1/runs/a/events/", "/nothing/"]
)
def test_bodies_are_refused_while_they_are_read(server: Server, path: str, announced: bool) -> None:
    length = "Content-Length: 1000000000" if announced else "Transfer-Encoding: chunked"
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\n{length}\r\n\r\n"
    most = (16 if path.endswith("/events/") else 4) << 20
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as client:
        client.settimeout(60)
        client.sendall(head.encode())
        sent = 0
        while sent < 200 << 20 and not select.select([client], [], [], 0)[0]:
            try:
                client.sendall(
                    (b"" if announced else b"10000\r\n") + b"x" * 65536 + (b"" if announced else b"\r\n")
                )
            except OSError:  # it has answered and closed
                break
            sent += 65536
        answer = b""
        while b"at most" not in answer and (part := client.recv(65536)):
            answer += part
    assert answer.startswith(b"HTTP/1.1 413") and b"the body of a request may have at most" in answer
    assert sent < most + (8 << 20), "what lies in the sockets' buffers comes on top"
