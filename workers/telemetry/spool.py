"""The spool of one producer: a file to which events are written before they are sent.

Line n of the file is the event with seq n. One call writes one line, so a killed process leaves at most one
incomplete line, the last; a reader stops before it.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

SCAN = 1 << 20


class SpoolWriter:
    """Appends lines. Safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.seq = 0
        self._lock = Lock()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o640)
        self._size = 0

    def append(self, head: bytes, tail: bytes) -> int:
        """Write `head`, the next seq, `tail` as one line; return the seq.

        Raises OSError (disk full, closed), after removing a partly written line.
        """
        with self._lock:
            line = b"%b%d%b" % (head, self.seq + 1, tail)
            written = os.write(self._file, line)
            if written != len(line):
                os.ftruncate(self._file, self._size)
                raise OSError(f"only {written} of {len(line)} bytes could be written to {self.path}")
            self._size += written
            self.seq += 1
            return self.seq

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1


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


class SpoolReader:
    """Reads complete lines from a spool that may still grow."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDONLY)
        self.next = 1
        """Seq of the next line."""
        self._offset = 0

    def take(self, max_bytes: int, max_lines: int) -> SpoolBatch | None:
        """The next lines, without advancing; None if there is no complete one. A line longer than `max_bytes` is returned complete."""
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

    def seek(self, seq: int) -> None:
        """Go to line `seq`, or to the end of the file if it has fewer lines."""
        if seq < self.next:
            self.next, self._offset = 1, 0
        position = self._offset
        while self.next < seq and (data := os.pread(self._file, SCAN, position)):
            lines = min(data.count(b"\n"), seq - self.next)
            position += _line_end(data, lines) if lines else len(data)
            if lines:
                self.next, self._offset = self.next + lines, position

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _line_end(data: bytes, lines: int) -> int:
    """Offset just after line number `lines`."""
    end = 0
    for _ in range(lines):
        end = data.index(b"\n", end) + 1
    return end
