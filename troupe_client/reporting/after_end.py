"""A process that outlives the program: it reports an end that the program could not report, and delivers what the program has left.

`os._exit`, SIGKILL and a crash of the interpreter leave no time for a report. The program holds a pipe to this process, which the
system closes with the program. At import this loads the standard library only, and it waits without using the processor.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

DONE = "done"
SECONDS = 60.0
"""Seconds for which it tries to deliver; after that, `troupe sync` does."""
PAUSE = 2.0
TAIL = 1 << 16
"""Bytes at the end of a spool that contain the last status, if the program has reported its end."""
SILENT = (
    "The program ended without a report: it was killed, for example for lack of memory, or it called os._exit"
)
_PROGRESS = re.compile(rb'"type":"(?:status|heartbeat)"')
_ENDED = re.compile(rb'"type":"status","state":"(?:finished|stopped|failed)"')


class AfterEnd:
    """The process, as the program sees it."""

    def __init__(self, folder: Path, spool: Path, url: str, token: str) -> None:
        order = {"folder": str(folder), "spool": str(spool), "url": url, "token": token}
        root = str(Path(__file__).resolve().parents[2])
        paths = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": paths},
            cwd=root,
            start_new_session=True,  # signals of the terminal end the program only
            text=True,
        )
        assert self._process.stdin is not None
        self._pipe: IO[str] = self._process.stdin
        self._pipe.write(json.dumps(order) + "\n")
        self._pipe.flush()
        if hasattr(os, "register_at_fork"):  # a child that lives longer would hold the pipe open
            os.register_at_fork(after_in_child=self._pipe.close)

    def end(self, *, delivered: bool, rest: Iterable[bytes] = ()) -> None:
        """Let the process end, at once if everything is delivered. rest: lines of the spool that the disk has not taken."""
        try:
            if delivered:
                self._pipe.write(DONE)
            else:
                self._pipe.writelines(line.decode() for line in rest)
            self._pipe.close()
            if delivered:
                self._process.wait(1.0)
        except (OSError, ValueError, subprocess.TimeoutExpired):  # the process was ended
            return


def main() -> None:
    """Wait for the end of the program, then deliver its events."""
    order = json.loads(sys.stdin.readline())
    rest = sys.stdin.read()
    if rest == DONE:
        return
    lines = tuple(line.encode() + b"\n" for line in rest.split("\n") if line)
    if not lines and (end := spool_end(Path(order["spool"]))):
        lines = (end,)
    until = time.monotonic() + SECONDS
    while not _is_delivered(order, lines) and time.monotonic() < until:
        time.sleep(PAUSE)


def _is_delivered(order: dict[str, Any], lines: tuple[bytes, ...]) -> bool:
    """Deliver the spools of the run, then the lines that may not be on disk."""
    from training_core.errors import TroupeError
    from troupe_client.reporting.opening import begin_from_folder
    from troupe_client.reporting.sync import ship_rest, ship_spool
    from troupe_client.server_api import Server, run_path
    from workers.telemetry.delivery import Undelivered

    server, folder = Server(order["url"], order["token"]), Path(order["folder"])
    try:
        begin_from_folder(folder, server)
        address = server.address(run_path(folder.name, "events/"))
        ship_spool(folder, address, server.token)
        if lines:
            ship_rest(Path(order["spool"]), lines, address, server.token)
    except (TroupeError, Undelivered):
        return False
    return True


def spool_end(spool: Path) -> bytes:
    """Complete the spool of a program that has ended: remove a partial line, and report the end if it has not.

    Returns the line with the end, which a full disk does not take; empty if the program has reported it.
    """
    with spool.open("r+b") as file:
        file.seek(0, os.SEEK_END)
        size = file.tell()
        file.seek(max(0, size - TAIL))
        tail = file.read()
        whole = tail.rfind(b"\n") + 1
        file.truncate(size - len(tail) + whole)
        if _ENDED.search(tail[:whole]):
            return b""
        file.seek(0)
        lines, last = 0, b""
        for line in file:
            lines += 1
            if _PROGRESS.search(line):
                last = line
        event = json.loads(last)
        end = {key: event[key] for key in ("run", "attempt", "producer", "iteration")}
        end |= {"seq": lines + 1, "type": "status", "state": "failed", "message": SILENT, "time": time.time()}
        written = json.dumps(end, separators=(",", ":")).encode() + b"\n"
        with suppress(OSError):
            file.write(written)
            file.flush()
    return written


if __name__ == "__main__":
    main()
