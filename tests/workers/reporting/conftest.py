"""An ingest server that stores events in a list: real HTTP and an independent, naive implementation of the protocol."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import zstandard


class Ingest:
    """Stores what it is sent; may be told to refuse."""

    def __init__(self) -> None:
        self.stored: dict[str, list[dict[str, Any]]] = {}
        self.command: str | None = None
        self.refuse: Callable[[dict[str, Any]], bool] = lambda event: False
        self.name_refused = True
        self.down_with = 0
        self.forget_below = 0
        self.token = "secret"
        self.batches = 0
        self.begun: list[dict[str, Any]] = []
        """Client runs, as their programs describe them."""

    def begin(self, token: str, body: bytes) -> tuple[int, dict[str, Any]]:
        if token != f"Bearer {self.token}":
            return 401, {"detail": "no"}
        self.begun.append(json.loads(body))
        page = f"/runs/{self.begun[-1]['id']}/"
        return 201, {"attempt": 1, "run": {"links": {"page": page}}}

    def answer(self, token: str, body: bytes) -> tuple[int, dict[str, Any]]:
        self.batches += 1
        if self.down_with:
            return self.down_with, {"code": "unavailable"}
        if token != f"Bearer {self.token}":
            return 401, {"detail": "no"}
        try:
            events = [json.loads(line) for line in body.splitlines()]
        except ValueError:
            return 400, {"code": "invalid", "seq": None, "errors": {"": "no JSON"}}
        for event in events:
            if self.refuse(event):
                return 400, {
                    "code": "invalid",
                    "seq": event["seq"] if self.name_refused else None,
                    "errors": {"x": "bad"},
                }
        stored = self.stored.setdefault(events[0]["producer"], [])
        for event in events:
            if event["seq"] > len(stored) + 1:
                return 409, {"code": "gap", "expected": len(stored) + 1}
            if event["seq"] == len(stored) + 1:
                stored.append(event)
        return 200, {"acknowledged": len(stored), "command": self.command}

    def events(self) -> list[dict[str, Any]]:
        return [event for events in self.stored.values() for event in events]


@pytest.fixture
def ingest() -> Ingest:
    return Ingest()


@contextmanager
def serving(ingest: Ingest) -> Iterator[str]:
    """Serve HTTP for `ingest` on a free port; the address of its events."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body, token = self.rfile.read(int(self.headers["Content-Length"])), self.headers["Authorization"]
            if self.path == "/api/v1/client-runs/":
                status, data = ingest.begin(token, body)
            else:
                assert self.headers["Content-Encoding"] == "zstd"
                status, data = ingest.answer(token, zstandard.decompress(body))
            content = json.dumps(data).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/events/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def url(ingest: Ingest) -> Iterator[str]:
    """Address of a running ingest server."""
    with serving(ingest) as address:
        yield address
