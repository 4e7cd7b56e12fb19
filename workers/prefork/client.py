"""Requests a process from the prefork server, and ends as that process ends.

A Ray node starts this program for each worker, by its path and with the worker's arguments. A short job is
`python -m workers.prefork.client job FOLDER --home HOME`. It imports the standard library only, since it runs once per worker. Where
the prefork server cannot serve a worker or a job (another interpreter, other code, a container), it becomes Ray's own program for
workers, or `python -m workers.job`.
"""

import importlib.util
import json
import os
import socket
import sys
from pathlib import Path

SOCKET = "TROUPE_PREFORK"
"""Environment variable: the path of the prefork server's socket."""
FORKED = b"f"
"""The prefork server's answer once the worker is a process."""
TIMEOUT = 20.0
"""Seconds to wait for that answer, since the first workers wait for the prefork server's imports. Ray gives a worker 60 s to register."""


def main(words: list[str]) -> int:
    """Run a worker or a job in a forked process and return its exit status; become its own program where there is none."""
    job = words[:1] == ["job"]
    arguments = ["-m", "workers.job", *words[1:]] if job else words
    address = os.environ.get(SOCKET, "")
    status = run_forked(address, arguments) if address else None
    if status is None:
        program = arguments if job else [str(ray_program()), *words]
        os.execv(sys.executable, [sys.executable, *program])
    return status


def run_forked(path: str, arguments: list[str]) -> int | None:
    """The exit status of a forked process, after it has ended: 1 if a signal ended it. None if no process was forked.

    Arguments, environment, folder and the three streams are sent.
    """
    request = {
        "arguments": arguments,
        "environment": dict(os.environ),
        "folder": str(Path.cwd()),
        "niceness": os.getpriority(os.PRIO_PROCESS, 0),
    }
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(TIMEOUT)
        try:
            connection.connect(path)
            socket.send_fds(connection, [b"\0"], [0, 1, 2])
            connection.sendall(json.dumps(request).encode())
            connection.shutdown(socket.SHUT_WR)
            if connection.recv(1) != FORKED:
                return None
        except OSError:
            return None
        connection.settimeout(None)
        status = connection.recv(1)  # returns when the process has ended
        return status[0] if status else 1


def ray_program() -> Path:
    """Ray's own program for workers, found without importing Ray."""
    spec = importlib.util.find_spec("ray")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "_private" / "workers" / "setup_worker.py"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
