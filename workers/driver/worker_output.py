"""The output of an attempt's workers. They write to files; Ray reads these on every node and sends new lines to the driver. So the last
lines of a killed worker are there, too.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ray.util import get_node_ip_address

from workers import ray_private

log = logging.getLogger(__name__)
Heard = Callable[[str, str, Sequence[str]], None]
"""(worker, stdout or stderr, lines)."""
Process = tuple[str, int]
"""Address of the node, process id."""
NAME = "troupe"
LOOK_AGAIN = 1.0
"""Minimum seconds between two reads of Ray's table of actors, for processes that were not in it."""
QUIET, LONGEST = 1.0, 5.0
"""At the end, for workers on other machines: seconds without a line after which no more are expected, and the maximum to wait."""
STREAMS = {"out": "stdout", "err": "stderr"}
"""Suffix of a worker's file -> stream."""
OF_RAY = (":job_id:", ":actor_name:", ":task_name:")
"""Beginnings of lines that Ray writes into these files and does not send."""


class WorkerNames:
    """Names of workers by their processes, from Ray's table of actors."""

    def __init__(self, label: str) -> None:
        """`label`: prefix of the attempt's actors."""
        self._prefix = f"{label}-"
        self.known: dict[Process, str] = {}
        self._sought: set[Process] = set()
        """Processes that were not in the table."""
        self._looked = -LOOK_AGAIN

    def of(self, process: Process) -> str:
        """The name of a worker as the timeline shows it; the number of a process that has none."""
        if process not in self.known and (
            process not in self._sought or time.monotonic() - self._looked >= LOOK_AGAIN
        ):
            self.read()
            self._sought.add(process)
        return self.known.get(process, f"process {process[1]}")

    def read(self) -> None:
        """Add the actors that have started since, also those that have ended."""
        self._looked = time.monotonic()
        for facts in ray_private.actors_of_this_job():
            name = str(facts["Name"])
            if name.startswith(self._prefix):
                process = str(facts["Address"]["IPAddress"]), int(facts["Pid"])
                self.known[process] = name.removeprefix(self._prefix).partition("-life-")[0]


class WorkerOutput:
    """Passes the lines of an attempt's workers to `heard`, from a thread of Ray."""

    def __init__(self, label: str, heard: Heard) -> None:
        self._names = WorkerNames(label)
        self._heard = heard
        self._last = time.monotonic()
        self._count: Counter[tuple[Process, str]] = Counter()
        """Lines that Ray has sent, by process and stream."""

    def open(self) -> None:
        """Start to listen. Ray must be connected."""
        ray_private.listen(NAME, self._emit)

    def close(self) -> None:
        """Stop listening, after the last lines of workers that have ended."""
        try:
            self._names.read()
            here = str(get_node_ip_address())  # type: ignore[no-untyped-call]
            if any(address != here for address, _ in self._names.known):
                self._settle()
            ray_private.stop_listening(NAME)
            for process, name in self._names.known.items():
                for stream, lines in self._rest(process) if process[0] == here else ():
                    self._heard(name, stream, lines)
        except Exception:  # of private parts of Ray, at the end of a run
            log.exception("the last output of workers could not be read")
        finally:
            ray_private.stop_listening(NAME)

    def _emit(self, batch: dict[str, Any]) -> None:
        """Handle one batch of Ray: {"ip", "pid", "is_err", "lines", ...}. An error would end the thread of Ray."""
        number = str(batch.get("pid"))  # Ray's subscriber returns it as text
        if not number.isdecimal():  # a process of the node itself: raylet, autoscaler
            return
        process, stream = (str(batch["ip"]), int(number)), "stderr" if batch["is_err"] else "stdout"
        self._last = time.monotonic()
        self._count[process, stream] += len(batch["lines"])
        try:
            self._heard(self._names.of(process), stream, batch["lines"])
        except Exception:
            log.exception("the output of the process %s could not be reported", process)

    def _settle(self) -> None:
        """Wait until other machines have sent nothing for QUIET seconds."""
        self._last = time.monotonic()
        end = self._last + LONGEST
        while time.monotonic() < min(end, self._last + QUIET):
            time.sleep(0.05)

    def _rest(self, process: Process) -> Iterator[tuple[str, list[str]]]:
        """Lines in the files of a process on this machine that Ray has not sent yet: it looks for new files every half second.

        Ray moves files of processes that have ended to the folder "old" when it has too many open.
        """
        logs = ray_private.folder_of_logs()
        for suffix, stream in STREAMS.items():
            name = f"worker-*-{process[1]}.{suffix}"
            files = sorted(
                [*logs.glob(name), *logs.glob(f"old/{name}")], key=lambda path: path.stat().st_mtime
            )
            for path in files[-1:]:  # a process of an earlier job may have had the same id
                text = path.read_bytes().decode(errors="replace").removesuffix("\n")
                lines = [line for line in text.split("\n") if not line.startswith(OF_RAY)]
                yield stream, lines[self._count[process, stream] :]
