"""Uploads a spool to the server: one batch at a time, in order, each until it is acknowledged or set aside.

The server stores the last seq of each producer. It answers a batch that starts after the next seq with 409 and the
expected seq; it acknowledges stored events again. An event that the server rejects is written to
`<producer>.rejected.jsonl` next to the spool, and a log event with its seq replaces it.
"""

import logging
import os
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import orjson
import zstandard

from workers.telemetry.spool import Rest, SpoolBatch, SpoolReader

MAX_BYTES = 1 << 20
"""Maximum bytes of a batch before compression; the server accepts 32 MiB."""
MAX_LINES = 5000
ABSENT = "This event was sent from memory while the disk was full; no copy of it was kept."
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Undelivered(Exception):
    """The server did not accept a batch. Retry later; nothing is lost."""


@dataclass(frozen=True)
class ServerResponse:
    """The server's response."""

    status: int
    body: dict[str, Any]


class UploadChannel(Protocol):
    """Sends compressed batches to the server."""

    def post(self, data: bytes) -> ServerResponse:
        """Send one batch. Raises Undelivered if there is no response."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class HttpChannel:
    """A UploadChannel with one persistent connection to the ingest address. Proxies are used only for other machines."""

    def __init__(self, url: str, token: str, timeout: float = 20.0) -> None:
        import httpx  # 0.2 s, paid by the thread that delivers

        for name in ("httpx", "httpcore"):  # a log record of each delivery would cause another delivery
            logging.getLogger(name).setLevel(logging.WARNING)
        self._errors = (httpx.HTTPError, httpx.InvalidURL)
        self.url = url
        self._client = httpx.Client(
            timeout=httpx.Timeout(timeout, connect=5.0),
            trust_env=urlsplit(url).hostname not in LOOPBACK,
            verify=not url.startswith("http:"),  # reading certificates takes 20 ms
            headers={
                "Authorization": f"Bearer {token}",
                "Content-Type": "application/x-ndjson",
                "Content-Encoding": "zstd",
            },
        )

    def post(self, data: bytes) -> ServerResponse:
        try:
            response = self._client.post(self.url, content=data)
        except self._errors as error:
            raise Undelivered(f"{self.url} does not answer: {error or type(error).__name__}") from error
        try:
            body = orjson.loads(response.content)
        except orjson.JSONDecodeError:
            body = {}
        return ServerResponse(response.status_code, body if isinstance(body, dict) else {})

    def close(self) -> None:
        self._client.close()


class SpoolUploader:
    """Delivers one spool file, then the lines of `rest`, which the disk has not taken.

    A full disk does not stop it: without the number of the last acknowledged event, events are only sent again later.
    """

    def __init__(self, spool: Path, channel: UploadChannel, rest: Rest | None = None) -> None:
        self.reader = SpoolReader(spool, rest)
        self._rest = rest
        self.channel = channel
        self.acknowledged = 0
        self.command: str | None = None
        self.rejected: dict[int, bytes] = {}
        self._ack_file = spool.with_suffix(".ack")
        self._rejected_file = spool.with_suffix(".rejected.jsonl")
        self._max_lines = MAX_LINES
        self._compressor = zstandard.ZstdCompressor(level=3)
        self._recall()

    def step(self) -> bool:
        """Deliver one batch; False if there is none. Raises Undelivered."""
        batch = self.reader.take(MAX_BYTES, self._max_lines)
        if batch is None:
            return False
        answer = self.channel.post(self._compressor.compress(self._content(batch)))
        if answer.status == 200:
            self._accepted(batch, answer.body)
        elif answer.status == 409 and answer.body.get("code") == "gap":
            self._rewind(batch, answer.body.get("expected"))
        elif answer.status == 400 and answer.body.get("code") == "invalid":
            self._refused(batch, answer.body)
        elif answer.status == 413:
            self._refused(batch, {"errors": {"": "too large for the server"}})
        else:
            self.command = answer.body.get("command") or self.command
            raise Undelivered(f"the server answered {answer.status}: {_detail(answer)}")
        return True

    def close(self) -> None:
        """Close file and connection."""
        self.reader.close()
        self.channel.close()

    def _accepted(self, batch: SpoolBatch, body: dict[str, Any]) -> None:
        last = body.get("acknowledged")
        if not isinstance(last, int) or last < batch.last:
            raise Undelivered(f"the server answered 200 without acknowledging seq {batch.last}")
        self.reader.seek(last + 1)
        self.command = body.get("command")
        self._max_lines = MAX_LINES
        self._remember(last)

    def _rewind(self, batch: SpoolBatch, expected: Any) -> None:
        if not isinstance(expected, int) or not 1 <= expected < batch.first:
            raise Undelivered(f"the server expects seq {expected!r} and was offered {batch.first}")
        self.reader.seek(expected)

    def _refused(self, batch: SpoolBatch, body: dict[str, Any]) -> None:
        """Set the named event aside; if none is named, search for it with batches of half the size."""
        seq = body.get("seq") if isinstance(body.get("seq"), int) else None
        if seq is None or not batch.first <= seq <= batch.last:
            if batch.count > 1:
                self._max_lines = max(1, batch.count // 2)
                return
            seq = batch.first
        if seq in self.rejected:
            raise Undelivered(
                f"the server refuses event {seq} and the line in its place: {body.get('errors')}"
            )
        self._set_aside(seq, batch, body.get("errors"))

    def _set_aside(self, seq: int, batch: SpoolBatch, errors: Any) -> None:
        line = batch.data.split(b"\n")[seq - batch.first]
        text = line.decode("utf-8", "replace")
        try:
            with self._rejected_file.open("ab") as file:
                file.write(orjson.dumps({"seq": seq, "errors": errors, "event": text}) + b"\n")
            where = f"it is kept in {self._rejected_file.name}"
        except OSError as error:
            where = f"it is lost, because it could not be kept: {error}"
        kind = _object(line).get("type", "unreadable")
        details = orjson.dumps(errors).decode()[:2000]
        message = f"The server refused a {kind} event; {where}. {details}"
        self.rejected[seq] = self._replacement(seq, batch, "error", message)

    def _replacement(self, seq: int, batch: SpoolBatch, level: str, message: str) -> bytes:
        """A log event that replaces another one."""
        fields = {"seq": seq, "type": "log", "level": level, "source": "reporting", "message": message}
        return orjson.dumps(self._envelope(batch) | fields)

    def _envelope(self, batch: SpoolBatch) -> dict[str, Any]:
        """Run, attempt, producer and time of the first readable event of the spool, or of the batch if the spool has none."""
        with self.reader.path.open("rb") as file:
            events = (_object(line) for line in chain(file, batch.data.split(b"\n")))
            first = next((event for event in events if "producer" in event), {})
        return {key: first.get(key) for key in ("run", "attempt", "producer", "time")}

    def _content(self, batch: SpoolBatch) -> bytes:
        """The batch, with replacements for rejected lines, and for empty ones, which were sent from memory."""
        refused = [seq for seq in self.rejected if batch.first <= seq <= batch.last]
        has_empty = b"\n\n" in batch.data or batch.data.startswith(b"\n")
        if not refused and not has_empty:
            return batch.data
        lines = batch.data.split(b"\n")
        for seq in refused:
            lines[seq - batch.first] = self.rejected[seq]
        for number in range(batch.count if has_empty else 0):
            lines[number] = lines[number] or self._replacement(batch.first + number, batch, "debug", ABSENT)
        return b"\n".join(lines)

    def _remember(self, last: int) -> None:
        self.acknowledged = last
        if self._rest:
            self._rest.drop(last)
        for seq in [seq for seq in self.rejected if seq <= last]:
            del self.rejected[seq]
        temporary = self._ack_file.with_suffix(
            f".ack.{os.getpid()}"
        )  # a sync may run in addition to the live run
        with suppress(OSError):
            temporary.write_text(str(last))
            temporary.replace(self._ack_file)

    def _recall(self) -> None:
        """Continue after the acknowledged events; if the file is unreadable, they are only sent again."""
        try:
            last = int(self._ack_file.read_text())
        except (OSError, ValueError):
            return
        self.reader.seek(last + 1)
        self.acknowledged = self.reader.next - 1


def _object(line: bytes) -> dict[str, Any]:
    """A line's JSON object; empty if it has none."""
    try:
        data = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
    return data if isinstance(data, dict) else {}


def _detail(answer: ServerResponse) -> str:
    return str(answer.body.get("detail") or answer.body.get("code") or "no reason given")[:300]
