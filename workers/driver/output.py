"""The output of the driver's process: reported as lines of the run's log, and still written where it was written."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock, current_thread
from typing import Any, Protocol

from workers.telemetry.output import Splitter

SOURCE = "driver"
OF_WORKERS = "ray_print_logs"
"""Thread in which Ray prints the workers' output. That output is reported with the worker's name instead."""


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
