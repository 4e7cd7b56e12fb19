"""Lines that the processes of a run write to stdout and stderr, as lines of the run's log."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock, current_thread
from typing import Any, Protocol

from workers.provenance.redaction import without_secrets
from workers.telemetry.faults import plain
from workers.telemetry.limits import MAX_TEXT

SOURCE = "driver"
OF_WORKERS = "ray_print_logs"
"""Thread in which Ray prints the workers' output. That output is reported with the worker's name instead."""
LEVEL = "output"
"""Level of these lines; a traceback has the level error."""
LONGEST = 4000
"""Maximum characters of a line; the rest is left out, with its length."""
RATE, BURST = 5000.0, 20_000.0
"""Lines per second of one process, and the number that may exceed it at once. Lines above are left out and counted."""
TRACEBACK = "Traceback (most recent call last):"


class ProcessOutput:
    """Reports the output of processes by `report(level, source, message)`. Methods may be called from any thread."""

    def __init__(
        self, report: Callable[[str, str, str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._report, self._clock = report, clock
        self._lock = Lock()
        self._rates: dict[str, _Rate] = {}
        self._tracebacks: dict[tuple[str, str], list[str]] = {}

    def lines(self, source: str, stream: str, lines: Iterable[str]) -> None:
        """Report complete lines of a process; `stream` is stdout or stderr."""
        with self._lock:
            for line in lines:
                self._line(source, stream, shown(line))

    def close(self) -> None:
        """Report unfinished tracebacks, and how many lines were left out."""
        with self._lock:
            for source, stream in list(self._tracebacks):
                self._end_traceback(source, stream)
            for source, rate in self._rates.items():
                self._left_out(source, rate)

    def _line(self, source: str, stream: str, line: str) -> None:
        """Report a line by itself; a traceback is one message."""
        pending = self._tracebacks.get((source, stream))
        if line == TRACEBACK:
            self._end_traceback(source, stream)
            self._tracebacks[source, stream] = [line]
        elif pending is None:
            if line.strip():
                self._put(source, LEVEL, line)
        else:
            pending.append(line)
            if (line and not line[0].isspace()) or sum(map(len, pending)) > MAX_TEXT:
                self._end_traceback(source, stream)

    def _end_traceback(self, source: str, stream: str) -> None:
        pending = self._tracebacks.pop((source, stream), None)
        if pending:
            self._put(source, "error", "\n".join(pending))

    def _put(self, source: str, level: str, message: str) -> None:
        rate = self._rates.setdefault(source, _Rate(self._clock()))
        if rate.allows(self._clock()):
            self._left_out(source, rate)
            self._report(level, source, without_secrets(message))
        else:
            rate.left_out += 1

    def _left_out(self, source: str, rate: "_Rate") -> None:
        if rate.left_out:
            self._report(
                "warning", source, f"{rate.left_out} lines of output were left out: too many at once"
            )
            rate.left_out = 0


class _Rate:
    """A bucket that fills with RATE lines per second, up to BURST."""

    def __init__(self, now: float) -> None:
        self._free, self._at = BURST, now
        self.left_out = 0

    def allows(self, now: float) -> bool:
        """Whether one more line may be reported."""
        self._free = min(BURST, self._free + (now - self._at) * RATE)
        self._at = now
        if self._free < 1.0:
            return False
        self._free -= 1.0
        return True


class Splitter:
    """Splits pieces of text into lines. A line that grows without an end is cut."""

    def __init__(self) -> None:
        self._rest = ""

    def add(self, text: str) -> list[str]:
        """Return the lines that are complete after `text`."""
        *lines, rest = (self._rest + text).split("\n")
        if len(rest) > LONGEST:
            rest = rest.rpartition("\r")[2]
        if len(rest) > LONGEST:
            lines.append(rest)
            rest = ""
        self._rest = rest
        return lines

    def end(self) -> list[str]:
        """Return the incomplete last line, if there is one."""
        rest, self._rest = self._rest, ""
        return [rest] if rest else []


def shown(line: str) -> str:
    """A line as a terminal shows it: without codes, after the last carriage return, of at most LONGEST characters."""
    text = plain(line.rstrip("\r\n").rpartition("\r")[2]).rstrip()
    more = len(text) - LONGEST
    return text if more <= 0 else f"{text[:LONGEST]}… ({more} more characters)"


class Output(Protocol):
    """Receives the lines of a process; see ProcessOutput."""

    def lines(self, source: str, stream: str, lines: Iterable[str]) -> None: ...

    def close(self) -> None: ...


class ReportedStream:
    """A text stream that also passes complete lines to `report`. Everything else is the stream's own."""

    def __init__(self, stream: Any, report: Callable[[list[str]], None]) -> None:
        self._stream = stream
        self._report: Callable[[list[str]], None] | None = report
        self._splitter = Splitter()
        self._lock = Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write first: the text is there even if the process is killed now."""
        count: int = self._stream.write(text)
        if self._report is not None and current_thread().name != OF_WORKERS:
            with self._lock:
                lines = self._splitter.add(text)
            if lines:
                self._report(lines)
        return count

    def writelines(self, lines: Any) -> None:
        """Write each of the lines."""
        for line in lines:
            self.write(line)

    def finish(self) -> None:
        """Report the incomplete last line, and nothing afterwards: libraries may hold this stream for longer."""
        report, self._report = self._report, None
        with self._lock:
            lines = self._splitter.end()
        if report is not None and lines:
            report(lines)


@contextmanager
def reported_output(output: Output) -> Iterator[None]:
    """Report what this process writes through sys.stdout and sys.stderr."""
    before = sys.stdout, sys.stderr
    streams = [
        ReportedStream(stream, lambda lines, name=name: output.lines(SOURCE, name, lines))  # type: ignore[misc]
        for name, stream in zip(("stdout", "stderr"), before, strict=True)
    ]
    sys.stdout, sys.stderr = streams
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for stream in streams:
            stream.finish()
        output.close()
