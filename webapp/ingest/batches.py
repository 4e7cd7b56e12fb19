"""Batches of events: decompression of a request body and its parsing into validated events, with limits, and the rejections.

The cost of parsing a body is not proportional to its size: 3 KB of zstd can contain 30 MB of `[]`, and each of those lists needs
more memory than its two characters. Therefore the characters that begin or separate values are counted during decompression.
"""

import ctypes
import gc
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from threading import Lock
from types import TracebackType
from typing import Any, Protocol

import orjson
import zstandard
from pydantic import TypeAdapter, ValidationError

from workers.telemetry.events import AnyEvent


class IngestRejected(Exception):
    """The whole batch was rejected; none of its events were stored."""

    def __init__(self, status: int, payload: dict[str, Any]) -> None:
        self.status = status
        self.payload = payload
        super().__init__(f"{status} {payload}")


def invalid(seq: int | None, errors: dict[str, str]) -> IngestRejected:
    """400: the event `seq` (None: the body itself) cannot be stored; one message per field path."""
    return IngestRejected(400, {"code": "invalid", "seq": seq, "errors": errors})


def gap(expected: int) -> IngestRejected:
    """409: events before this batch are missing; send from `expected` on."""
    return IngestRejected(409, {"code": "gap", "expected": expected})


def full(detail: str, command: str | None) -> IngestRejected:
    """507: the project's storage quota is reached; keep the batch and try again. Commands still reach the driver."""
    return IngestRejected(507, {"code": "quota", "detail": detail, "command": command})


def too_large(detail: str) -> IngestRejected:
    """413: send smaller batches."""
    return IngestRejected(413, {"code": "too_large", "detail": detail})


def busy(detail: str) -> IngestRejected:
    """503: the batch is valid; keep it and try again."""
    return IngestRejected(503, {"code": "busy", "detail": detail})


MAX_BODY = 16 << 20
"""Maximum bytes as sent."""
MAX_EXPANDED = 32 << 20
"""Maximum bytes after decompression."""
MAX_MARKS = 2_000_000
"""Maximum number of `[`, `,` and `:`, including those in strings: approximately the number of parsed values."""
MAX_OBJECTS = 400_000
"""Of `{`."""
MAX_MEMBERS = 10_000
"""Maximum number of gzip members or zstd frames in a body."""
LARGE = 2 << 20
"""Bytes; larger bodies are processed one at a time. Reporters send about 1 MiB per request."""
PATIENCE = 20.0
"""Seconds that a large body waits for others."""
_SLICE = 128
"""Bytes decompressed at a time: at most about 4 MiB for zstd (blocks of 4 bytes can contain 128 KiB)."""


class Expander(Protocol):
    """Interface of zlib's and zstandard's decompression objects."""

    @property
    def eof(self) -> bool:
        """Whether the member or frame is complete."""
        ...

    @property
    def unused_data(self) -> bytes:
        """The bytes after its end."""
        ...

    def decompress(self, data: bytes) -> bytes:
        """Return the output of `data`."""
        ...


class Room:
    """One batch's share of the process's memory: large batches are processed one at a time.

    A context manager; `claim` may be called several times within it. Garbage collection is disabled while a large batch is processed:
    parsed JSON has no cycles, and a collection of a million lists would block every other request for more than a second.
    """

    _lock = Lock()

    def __init__(self) -> None:
        self._held = False

    def claim(self, size: int) -> None:
        """Wait for room for a body of `size` bytes. Raises IngestRejected (503) after PATIENCE."""
        if size > LARGE and not self._held:
            self._held = self._lock.acquire(timeout=PATIENCE)
            if not self._held:
                raise busy("other large batches are being stored; send this batch again later")
            gc.disable()

    def __enter__(self) -> "Room":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._held:
            self._held = False
            gc.enable()
            _trim()
            self._lock.release()


def expand(body: bytes, encoding: str, room: Room) -> bytes | bytearray:
    """Return the decompressed body, including all gzip members or zstd frames. Raises IngestRejected."""
    if len(body) > MAX_BODY:
        raise too_large(f"at most {MAX_BODY} bytes at once")
    if encoding not in _PIECES:
        raise invalid(None, {"": f"Content-Encoding {encoding[:40]!r} is not supported; use zstd or gzip"})
    whole, counts = bytearray(), Counts()
    try:
        for piece in _PIECES[encoding](body):
            counts.add(piece)
            room.claim(counts.size)
            whole += piece
    except (zstandard.ZstdError, zlib.error, EOFError, MemoryError) as error:
        raise invalid(None, {"": f"the body is not valid {encoding}: {error}"}) from error
    return whole


def _trim() -> None:
    """Return freed memory to the system: glibc retains one heap for each thread that served a large body."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):  # only glibc has it
        libc.malloc_trim(0)


class Counts:
    """Running totals of a body."""

    def __init__(self) -> None:
        self.size = self.marks = self.objects = 0

    def add(self, piece: bytes) -> None:
        """Raises IngestRejected as soon as a limit is exceeded."""
        self.size += len(piece)
        if self.size > MAX_EXPANDED:
            raise too_large(f"at most {MAX_EXPANDED} bytes at once, decompressed")
        self.marks += piece.count(b"[") + piece.count(b",") + piece.count(b":")
        self.objects += piece.count(b"{")
        if self.marks > MAX_MARKS or self.objects > MAX_OBJECTS:
            raise too_large(
                f"at most {MAX_MARKS} of the characters [ , : and {MAX_OBJECTS} of the character {{ at once; "
                "send fewer events per batch, or smaller events"
            )


def _plain(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), 1 << 20):
        yield body[start : start + (1 << 20)]


def _expanded(make: Callable[[], Expander], body: bytes) -> Iterator[bytes]:
    """Yield the output of consecutive members or frames; anything else is rejected. Raises EOFError for a truncated body."""
    at, members = 0, 0
    while at < len(body):
        members += 1
        if members > MAX_MEMBERS:
            raise EOFError(f"it has more than {MAX_MEMBERS} members")
        expander = make()
        while not expander.eof:
            if at >= len(body):
                raise EOFError("it is truncated")
            piece = body[at : at + _SLICE]
            at += len(piece)
            yield expander.decompress(piece)
        at -= len(expander.unused_data)


def _zstd() -> Expander:
    return zstandard.ZstdDecompressor(max_window_size=MAX_EXPANDED).decompressobj()


def _gzip() -> Expander:
    return zlib.decompressobj(wbits=31)


_PIECES: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "": _plain,
    "identity": _plain,
    "zstd": partial(_expanded, _zstd),
    "gzip": partial(_expanded, _gzip),
}


MAX_EVENTS = 20_000
_EVENTS: TypeAdapter[AnyEvent] = TypeAdapter(AnyEvent)
_MESSAGES = 20
"""Maximum number of reported field errors."""
_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
"""The escape of NUL in JSON, not an escaped backslash before u0000."""


@dataclass(frozen=True)
class EventBatch:
    """Consecutive events of one producer; at least one."""

    attempt: int
    producer: str
    first: int
    events: list[AnyEvent]

    @property
    def last(self) -> int:
        """Seq of the last event."""
        return self.first + len(self.events) - 1


def batch_read(run_id: str, body: bytes, encoding: str, room: Room) -> EventBatch:
    """Decompress, parse and validate a body. Raises IngestRejected."""
    content = expand(body, encoding.strip().lower(), room)
    if content.count(b"\n") + (not content.endswith(b"\n")) > MAX_EVENTS:
        raise too_large(f"at most {MAX_EVENTS} events at once")
    if b"\\u0000" in content:  # the database cannot store NUL
        content = _NUL.sub(rb"\1\\ufffd", content)
    lines = _lines(content)
    head = _event(next(lines), None)
    _check_envelope(head, head, run_id, head.seq)
    events = [head]
    for seq, line in enumerate(lines, head.seq + 1):
        event = _event(line, seq)
        _check_envelope(event, head, run_id, seq)
        events.append(event)
    return EventBatch(head.attempt, head.producer, head.seq, events)


def _lines(content: bytes | bytearray) -> Iterator[memoryview]:
    """Yield the lines without copying; at least one. The last newline may be missing."""
    view, start = memoryview(content), 0
    while start < len(content) or start == 0:
        end = content.find(b"\n", start)
        end = len(content) if end < 0 else end
        yield view[start:end]
        start = end + 1


def _event(line: memoryview, seq: int | None) -> AnyEvent:
    """Return the event of a line. `seq`, if known, identifies an invalid line in the error."""
    try:
        data = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise invalid(seq, {"": f"a line is not valid JSON: {str(error)[:200]}"}) from error
    try:
        return _EVENTS.validate_python(data)
    except ValidationError as error:
        refused = invalid(seq or _seq(data), _messages(error))
    del data  # a traceback would keep this large object alive
    raise refused


def _check_envelope(event: AnyEvent, head: AnyEvent, run_id: str, seq: int) -> None:
    if event.run != run_id:
        raise invalid(event.seq, {"run": f"this URL is for run {run_id}"})
    if (event.producer, event.attempt) != (head.producer, head.attempt):
        raise invalid(event.seq, {"producer": "one batch has events of one producer and attempt"})
    if event.seq != seq:
        raise invalid(event.seq, {"seq": f"seqs of a batch must be consecutive; {seq} was expected"})


def _seq(data: Any) -> int | None:
    seq = data.get("seq") if isinstance(data, dict) else None
    return seq if isinstance(seq, int) and not isinstance(seq, bool) else None


def _messages(error: ValidationError) -> dict[str, str]:
    """Return one message per field path; the first part of a location is the event's type."""
    messages: dict[str, str] = {}
    for item in error.errors(include_url=False, include_context=False, include_input=False)[:_MESSAGES]:
        messages.setdefault(".".join(str(part)[:200] for part in item["loc"][1:])[:200], item["msg"][:300])
    return messages
