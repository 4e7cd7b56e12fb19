"""Decompression of request bodies, with limits enforced before parsing.

The cost of parsing a body is not proportional to its size: 3 KB of zstd can contain 30 MB of `[]`, and each of those lists needs
more memory than its two characters. Therefore the characters that begin or separate values are counted during decompression.
"""

import ctypes
import gc
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from threading import Lock
from types import TracebackType
from typing import Protocol

import zstandard

from webapp.ingest.errors import busy, invalid, too_large

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
