"""Ray nodes whose workers are forked, where this process starts the node."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workers.node import forked_worker

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Variables of libraries that would start threads in the fork server; workers set their own number."""
IDLE = 10.0
"""Seconds without a worker after which the fork server begins its imports: the other services of a machine start first."""


@contextmanager
def forked_workers(*, wait: bool = False, folder: Path | None = None) -> Iterator[None]:
    """A Ray node that this process starts inside the context forks its workers, on Linux.

    wait: return once the imports are done. folder: of the fork server's socket, with a short path; temporary by default.

    Ray reads the name of the program for workers from a constant of the process that starts the node.
    """
    if sys.platform != "linux":  # elsewhere libraries do not survive a fork
        yield
        return
    from ray._private import ray_constants

    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fork-", dir=folder, ignore_cleanup_errors=True) as private:
        address = str(Path(private) / "socket")
        server = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "workers.node.fork_server",
                address,
                str(0.0 if wait else IDLE),
            ],
            env=os.environ | dict.fromkeys(THREADS, "1"),
            stdin=subprocess.PIPE,  # closed when this process ends: the server ends then, too
            stdout=subprocess.PIPE,
        )
        assert server.stdout is not None
        server.stdout.readline()  # where the server has ended, workers start as Ray starts them
        if wait:
            server.stdout.readline()
        program = ray_constants.SETUP_WORKER_FILENAME
        ray_constants.SETUP_WORKER_FILENAME = str(Path(forked_worker.__file__).resolve())
        os.environ[forked_worker.SOCKET] = address
        try:
            yield
        finally:
            ray_constants.SETUP_WORKER_FILENAME = program
            del os.environ[forked_worker.SOCKET]
            server.kill()
            server.communicate()
