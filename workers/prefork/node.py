"""Ray nodes whose workers are forked: `python -m workers.prefork.node start --head --block ...`, as `ray start` otherwise.

The head starts no server for Ray's client (`ray://` addresses), which nothing of Troupe uses and which takes a second of CPU time.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workers.prefork import client

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Variables of libraries that would start threads in the prefork server; workers set their own number."""
IDLE = 10.0
"""Seconds without a worker after which the prefork server begins its imports: the other services of a machine start first."""


def main() -> None:
    """Start a node in the foreground. Its workers end with it."""
    from workers.ray_private import start_node

    # A node that is ended with its process group removes nothing. The owner of Ray's folder removes the socket with it.
    places = [Path(word.partition("=")[2]) for word in sys.argv if word.startswith("--temp-dir=")]
    with forked_workers(folder=next(iter(places), None)):
        start_node()


@contextmanager
def forked_workers(*, wait: bool = False, folder: Path | None = None) -> Iterator[None]:
    """A Ray node that this process starts inside the context forks its workers, on Linux.

    wait: return once the imports are done. folder: of the prefork server's socket, with a short path; temporary by default.
    """
    if sys.platform != "linux":  # elsewhere libraries do not survive a fork
        yield
        return
    from workers.ray_private import program_for_workers

    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fork-", dir=folder, ignore_cleanup_errors=True) as private:
        address = str(Path(private) / "socket")
        server = subprocess.Popen(
            [sys.executable, "-m", "workers.prefork.server", address, str(0.0 if wait else IDLE)],
            env=os.environ | dict.fromkeys(THREADS, "1"),
            stdin=subprocess.PIPE,  # closed when this process ends: the server ends then, too
            stdout=subprocess.PIPE,
        )
        assert server.stdout is not None
        server.stdout.readline()  # where the server has ended, workers start as Ray starts them
        if wait:
            server.stdout.readline()
        os.environ[client.SOCKET] = address
        try:
            with program_for_workers(Path(client.__file__).resolve()):
                yield
        finally:
            del os.environ[client.SOCKET]
            server.kill()
            server.communicate()


if __name__ == "__main__":
    main()
