"""The bytes of a request as they were before compression, with limits that hold before anything is parsed.

What a body costs to parse is not its size: 3 KB of zstd may hold 30 MB of `[]`, and each of those lists takes more memory than its two
characters. So the characters that begin or separate values are counted while the body expands, in pieces.
"""

import ctypes
import gc
import zlib
from collections.abc import Callable, Iterator
from threading import Lock
from types import TracebackType
from typing import Protocol

import zstandard

from webapp.ingest.errors import busy, invalid, too_large

MAX_BODY = 16 << 20
"""Bytes as sent."""
MAX_EXPANDED = 32 << 20
"""Bytes after decompression."""
MAX_MARKS = 2_000_000
"""Of `[`, `,` and `:`, those inside strings included: about the values that are parsed."""
MAX_OBJECTS = 400_000
"""Of `{`."""
MAX_MEMBERS = 10_000
"""gzip members or zstd frames of a body."""
LARGE = 2 << 20
"""Bytes; bodies beyond it are read one at a time. Reporters send about 1 MiB at once."""
PATIENCE = 20.0
"""Seconds that a large body waits for others."""
_SLICE = 128
"""Bytes that are expanded at once: at most about 4 MiB of zstd (blocks of 4 bytes hold 128 KiB)."""


class Expander(Protocol):
    """zlib's and zstandard's decompression objects."""

    @property
    def eof(self) -> bool:
        """Whether the member or frame is whole."""
        ...

    @property
    def unused_data(self) -> bytes:
        """What came behind it."""
        ...

    def decompress(self, data: bytes) -> bytes:
        """What follows from `data`."""
        ...


class Room:
    """One batch's share of the process's memory: large ones are held one after another.

    A context manager; within it `claim` may be called again and again. Nothing is garbage collected while a large batch is held:
    parsed JSON has no cycles, and a collection of a million lists would stop every other request for more than a second.
    """

    _lock = Lock()

    def __init__(self) -> None:
        self._held = False

    def claim(self, size: int) -> None:
        """Wait until a body of `size` bytes may be held. Raises IngestRejected (503) after PATIENCE."""
        if size > LARGE and not self._held:
            self._held = self._lock.acquire(timeout=PATIENCE)
            if not self._held:
                raise busy("other large batches are being stored; send this one again in a moment")
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
    """The body as it was before compression, all gzip members or zstd frames of it. Raises IngestRejected."""
    if len(body) > MAX_BODY:
        raise too_large(f"at most {MAX_BODY} bytes at once")
    if encoding not in _PIECES:
        raise invalid(None, {"": f"Content-Encoding {encoding[:40]!r} is not known; use zstd or gzip"})
    whole, counts = bytearray(), Counts()
    try:
        for piece in _PIECES[encoding](body):
            counts.add(piece)
            room.claim(counts.size)
            whole += piece
    except (zstandard.ZstdError, zlib.error, EOFError, MemoryError) as error:
        raise invalid(None, {"": f"the body is no {encoding}: {error}"}) from error
    return whole


def _trim() -> None:
    """Give memory that was freed back to the system: glibc keeps it, one heap for each thread that served a large body."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):  # glibc alone has it
        libc.malloc_trim(0)


class Counts:
    """What has come of a body so far."""

    def __init__(self) -> None:
        self.size = self.marks = self.objects = 0

    def add(self, piece: bytes) -> None:
        """Raises IngestRejected as soon as it is too much."""
        self.size += len(piece)
        if self.size > MAX_EXPANDED:
            raise too_large(f"at most {MAX_EXPANDED} bytes at once, decompressed")
        self.marks += piece.count(b"[") + piece.count(b",") + piece.count(b":")
        self.objects += piece.count(b"{")
        if self.marks > MAX_MARKS or self.objects > MAX_OBJECTS:
            raise too_large(
                f"at most {MAX_MARKS} of the characters [ , : and {MAX_OBJECTS} of the character {{ at once; "
                "send fewer events at once, or less in one"
            )


def _plain(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), 1 << 20):
        yield body[start : start + (1 << 20)]


def _expanded(make: Callable[[], Expander]) -> Callable[[bytes], Iterator[bytes]]:
    def pieces(body: bytes) -> Iterator[bytes]:
        """Members and frames may follow one another; nothing else may follow. Raises EOFError where the last is cut off."""
        at, members = 0, 0
        while at < len(body):
            members += 1
            if members > MAX_MEMBERS:
                raise EOFError(f"it has more than {MAX_MEMBERS} members")
            expander = make()
            while not expander.eof:
                if at >= len(body):
                    raise EOFError("it is cut off")
                piece = body[at : at + _SLICE]
                at += len(piece)
                yield expander.decompress(piece)
            at -= len(expander.unused_data)

    return pieces


def _zstd() -> Expander:
    return zstandard.ZstdDecompressor(max_window_size=MAX_EXPANDED).decompressobj()


def _gzip() -> Expander:
    return zlib.decompressobj(wbits=31)


_COMPRESSED = {"zstd": _expanded(_zstd), "gzip": _expanded(_gzip)}
_PIECES: dict[str, Callable[[bytes], Iterator[bytes]]] = {"": _plain, "identity": _plain, **_COMPRESSED}
