"""Many viewers of one or of several runs in one process, as light as can be, so that they measure the server and not themselves.

    python -m tests.benchmarks.viewers COUNT WEBSOCKETS KEY FIRST        (the cookies on standard input)

WEBSOCKETS: addresses of the runs, separated by commas; the viewers take turns.

Says "ready" when all of them watch; a line on standard input ends it. Then prints JSON: what every viewer saw of KEY's
steps from FIRST on, and how long after the moment that each value holds (seconds since the epoch) it came. Viewers go by the cursor as
static/js/live.js does. All get the same bytes, which are read once.
"""

import asyncio
import base64
import json
import os
import struct
import sys
import time
from typing import Any
from urllib.parse import urlsplit

TOGETHER = 50
"""Handshakes at a time."""
TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


class Shared:
    """Messages read once for all viewers."""

    def __init__(self) -> None:
        self._raw = b""
        self._message: dict[str, Any] = {}

    def read(self, raw: bytes) -> dict[str, Any]:
        """JSON of a message; the last one is remembered."""
        if raw != self._raw:
            self._raw, self._message = raw, json.loads(raw)
        return self._message


class Viewer(asyncio.Protocol):
    """One socket."""

    def __init__(self, address: str, cookies: str, key: str, shared: Shared) -> None:
        self._url, self._cookies, self._key, self._shared = urlsplit(address), cookies, key, shared
        self._buffer = bytearray()
        self._transport: asyncio.Transport
        self.open = asyncio.get_running_loop().create_future()
        self.watching = False
        self.closed = False
        self.cursor = 0
        self.resyncs = 0
        self.delays: dict[int, float] = {}
        """By step, of its first arrival."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the upgrade."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        url = self._url
        key = base64.b64encode(os.urandom(16)).decode()
        head = [
            f"GET {url.path} HTTP/1.1", f"Host: {url.netloc}", "Upgrade: websocket", "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", f"Origin: http://{url.netloc}",
            f"Cookie: {self._cookies}", "", "",
        ]  # fmt: skip
        transport.write("\r\n".join(head).encode())

    def connection_lost(self, exc: Exception | None) -> None:
        """The server let go."""
        self.closed = True
        if not self.open.done():
            self.open.set_exception(ConnectionError("refused"))

    def data_received(self, data: bytes) -> None:
        """Frames, once the server has switched protocols."""
        self._buffer += data
        if not self.open.done():
            head, found, rest = bytes(self._buffer).partition(b"\r\n\r\n")
            if not found:
                return
            if b" 101 " not in head.split(b"\r\n")[0]:
                self.open.set_exception(ConnectionError(head[:200].decode()))
                return
            self._buffer = bytearray(rest)
            self.open.set_result(None)
            self._say()
        while frame := self._frame():
            self._take(*frame)

    def _frame(self) -> tuple[int, bytes] | None:
        """Opcode and payload of the next whole frame (servers do not mask, and this one does not split)."""
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        size, start = buffer[1] & 127, 2
        if size >= 126:
            form, start = (">H", 4) if size == 126 else (">Q", 10)
            if len(buffer) < start:
                return None
            (size,) = struct.unpack_from(form, buffer, 2)
        if len(buffer) < start + size:
            return None
        payload = bytes(buffer[start : start + size])
        opcode = buffer[0] & 15
        del buffer[: start + size]
        return opcode, payload

    def _take(self, opcode: int, payload: bytes) -> None:
        if opcode == PING:
            self._send(PONG, payload)
        if opcode != TEXT:
            return
        message = self._shared.read(payload)
        if message["type"] == "resync":
            self.resyncs += 1
            self.cursor = message["cursor"]
        elif message["from"] > self.cursor:
            self._say()
        else:
            now = time.time()
            self.watching = True
            self.cursor = max(self.cursor, message["to"])
            for step, value, *_ in message["points"].get(self._key, ()):
                self.delays.setdefault(step, now - value)

    def _say(self) -> None:
        self._send(TEXT, json.dumps({"cursor": self.cursor}).encode())

    def _send(self, opcode: int, payload: bytes) -> None:
        """A short frame, masked with zeros."""
        self._transport.write(bytes([128 | opcode, 128 | len(payload), 0, 0, 0, 0]) + payload)


async def watch(count: int, address: str, key: str, first: int, cookies: str) -> dict[str, Any]:
    """Until standard input has a line; the figures."""
    loop, runs = asyncio.get_running_loop(), [(one, Shared()) for one in address.split(",")]
    url = urlsplit(runs[0][0])
    viewers: list[Viewer] = []
    for start in range(0, count, TOGETHER):
        turns = [runs[number % len(runs)] for number in range(start, min(start + TOGETHER, count))]
        some = [Viewer(one, cookies, key, shared) for one, shared in turns]
        for viewer in some:
            await loop.create_connection(lambda viewer=viewer: viewer, url.hostname, url.port)
        await asyncio.gather(*(viewer.open for viewer in some))
        viewers += some
    while not all(viewer.watching for viewer in viewers):
        await asyncio.sleep(0.05)
    print("ready", flush=True)
    await loop.run_in_executor(None, sys.stdin.readline)
    return {
        "seen": [sorted(viewer.delays) for viewer in viewers],
        "delays": sorted(
            delay for viewer in viewers for step, delay in viewer.delays.items() if step >= first
        ),
        "resyncs": sum(viewer.resyncs for viewer in viewers),
        "closed": sum(viewer.closed for viewer in viewers),
    }


if __name__ == "__main__":
    words = sys.argv[1:]
    found = asyncio.run(watch(int(words[0]), words[1], words[2], int(words[3]), sys.stdin.readline().strip()))
    print(json.dumps(found), flush=True)
