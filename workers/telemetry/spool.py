"""The spool of one producer: a file to which events are written before they are sent.

Line n of the file is the event with seq n. One call writes one line, so a killed process leaves at most one
incomplete line, the last; a reader stops before it. While the disk takes no lines, later ones are kept in memory and sent from
there. As soon as the disk has room again they are written too; an empty line stands for one that the server has stored already.
"""

import os
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Protocol

SCAN = 1 << 20
MAX_KEPT = 4 << 20
"""Bytes of lines that are kept in memory while the disk takes none."""
RETRY_SECONDS = 1.0
"""Seconds between two attempts to write what is kept."""


@dataclass(frozen=True)
class SpoolBatch:
    """Consecutive complete lines."""

    first: int
    """Seq of the first line."""
    count: int
    data: bytes

    @property
    def last(self) -> int:
        """Seq of the last line."""
        return self.first + self.count - 1


class KeptLines:
    """Consecutive lines in memory. `first`: seq of the first of them."""

    def __init__(self, first: int = 1, lines: tuple[bytes, ...] = ()) -> None:
        self.first = first
        self.lines = deque(lines)
        self.size = sum(map(len, lines))
        """Bytes."""

    def add(self, line: bytes) -> None:
        """Append a line."""
        self.lines.append(line)
        self.size += len(line)

    def drop(self, last: int) -> None:
        """Remove the lines up to seq `last`, which the server has stored."""
        while self.lines and self.first <= last:
            self.size -= len(self.lines.popleft())
            self.first += 1

    def take(self, first: int, max_bytes: int, max_lines: int) -> SpoolBatch | None:
        """The lines from seq `first` on, at least one; None if there is none. Dropped ones are empty."""
        gone = min(max(0, self.first - first), max_lines)
        taken, size = [b"\n"] * gone if self.lines else [], 0
        for position in range(max(0, first - self.first), len(self.lines)):
            size += len(self.lines[position])
            if len(taken) == max_lines or (taken and size > max_bytes):
                break
            taken.append(self.lines[position])
        return SpoolBatch(first, len(taken), b"".join(taken)) if taken else None


class SpoolWriter:
    """Appends lines. Safe to use from several threads.

    `is_full`: whether the disk took no line at the last attempt, and lines are kept in memory.
    """

    def __init__(self, path: Path, memory: int = 0) -> None:
        """memory: bytes of lines that are kept while the disk takes none."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.seq = 0
        self.is_full = False
        self._lock = Lock()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o640)
        self._size = 0
        self._memory = memory
        self._kept = KeptLines()
        self._on_disk = 0
        """Lines of the file when the disk became full."""
        self._again = 0.0

    def append(self, head: bytes, tail: bytes, *, always: bool = False) -> int:
        """Write `head`, the next seq, `tail` as one line; return the seq.

        Raises OSError (closed; disk full, and no room in memory, which `always` needs not), after removing a partly written line.
        """
        with self._lock:
            line = b"%b%d%b" % (head, self.seq + 1, tail)
            if not self.is_full or self._written_rest():
                try:
                    self._write(line)
                except OSError:
                    if self._file < 0 or not self._memory:
                        raise
                    self.is_full, self._kept = True, KeptLines(self.seq + 1)
                    self._on_disk = self.seq
                    self._again = time.monotonic() + RETRY_SECONDS
            if self.is_full:
                self._keep(line, always=always)
            self.seq += 1
            return self.seq

    def take(self, first: int, max_bytes: int, max_lines: int) -> SpoolBatch | None:
        """The lines from seq `first` on that are in memory only; None if there are none."""
        with self._lock:
            if not self.is_full or first <= self._on_disk:
                return None
            return self._kept.take(first, max_bytes, max_lines)

    def drop(self, last: int) -> None:
        """Remove the lines up to seq `last` from memory, because the server has stored them."""
        if self.is_full:
            with self._lock:
                self._kept.drop(last)

    def close(self) -> KeptLines:
        """Close the file. Returns the lines that are in memory only."""
        with self._lock:
            if self.is_full and self._file >= 0:
                self._again = 0.0
                self._written_rest()
            if self._file >= 0:
                os.close(self._file)
                self._file = -1
            return self._kept if self.is_full else KeptLines(self.seq + 1)

    def _keep(self, line: bytes, *, always: bool) -> None:
        if self._file < 0 or (not always and self._kept.size + len(line) > self._memory):
            raise OSError(
                f"the disk of {self.path} takes no events, and {self._memory:,} bytes wait in memory"
            )
        self._kept.add(line)

    def _write(self, lines: bytes) -> None:
        written = os.write(self._file, lines)
        if written != len(lines):
            os.ftruncate(self._file, self._size)
            raise OSError(f"only {written} of {len(lines)} bytes could be written to {self.path}")
        self._size += written

    def _written_rest(self) -> bool:
        """Whether the disk has taken the lines in memory, now."""
        if time.monotonic() < self._again:
            return False
        stored = self._kept.first - 1 - self._on_disk
        try:
            self._write(b"\n" * stored + b"".join(self._kept.lines))
        except OSError:
            self._again = time.monotonic() + RETRY_SECONDS
            return False
        self.is_full, self._kept = False, KeptLines()
        return True


class Rest(Protocol):
    """Lines that are not in the file."""

    def take(self, first: int, max_bytes: int, max_lines: int) -> SpoolBatch | None:
        """The lines from seq `first` on; None if there are none."""
        ...

    def drop(self, last: int) -> None:
        """Forget the lines up to seq `last`."""
        ...


class SpoolReader:
    """Reads complete lines from a spool that may still grow, then those of `rest`, which are not in the file."""

    def __init__(self, path: Path, rest: Rest | None = None) -> None:
        self.path = path
        self._rest = rest
        self._file = os.open(path, os.O_RDONLY)
        self.next = 1
        """Seq of the next line."""
        self._line, self._offset = 1, 0
        """Seq of a line, and where it begins in the file."""

    def take(self, max_bytes: int, max_lines: int) -> SpoolBatch | None:
        """The next lines, without advancing; None if there is no complete one. A line longer than `max_bytes` is returned complete."""
        self._advance(self.next)
        if self._line == self.next and (batch := self._of_file(max_bytes, max_lines)):
            return batch
        return self._rest.take(self.next, max_bytes, max_lines) if self._rest else None

    def seek(self, seq: int) -> None:
        """Go to line `seq`, or to the end of the file if it has fewer lines and there is no rest."""
        if seq < self._line:
            self._line, self._offset = 1, 0
        self._advance(seq)
        self.next = seq if self._rest else self._line

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _of_file(self, max_bytes: int, max_lines: int) -> SpoolBatch | None:
        data = os.pread(self._file, max_bytes, self._offset)
        while data and b"\n" not in data:
            more = os.pread(self._file, max_bytes, self._offset + len(data))
            if not more:
                return None
            data += more
        end = data.rfind(b"\n") + 1
        if not end:
            return None
        count = data.count(b"\n", 0, end)
        if count > max_lines:
            end, count = _line_end(data, max_lines), max_lines
        return SpoolBatch(self.next, count, data[:end])

    def _advance(self, seq: int) -> None:
        position = self._offset
        while self._line < seq and (data := os.pread(self._file, SCAN, position)):
            lines = min(data.count(b"\n"), seq - self._line)
            position += _line_end(data, lines) if lines else len(data)
            if lines:
                self._line, self._offset = self._line + lines, position


def _line_end(data: bytes, lines: int) -> int:
    """Offset just after line number `lines`."""
    end = 0
    for _ in range(lines):
        end = data.index(b"\n", end) + 1
    return end
