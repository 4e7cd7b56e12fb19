"""Whether all processes of a run see one folder: each writes its part of a checkpoint there, and finds what others wrote.

The driver creates a file with a random name, which every worker reads: on a node without the mount, the same path is another folder
or none.
"""

import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from training_core.errors import TroupeError


class FolderNotShared(TroupeError):
    """A node does not see what the driver writes into the run's folder."""


@contextmanager
def marked(folder: Path) -> Iterator[Path]:
    """A file in `folder` that exists for the duration of the block and that no other folder has. Raises OSError."""
    mark = folder / f".seen-{secrets.token_hex(8)}"
    mark.touch()
    try:
        yield mark
    finally:
        mark.unlink(missing_ok=True)


def check_mark(worker: object, mark: Path) -> None:
    """Read the mark in this process. Raises FolderNotShared, which names the machine.

    `worker` is the actor whose `__ray_call__` runs this function.
    """
    try:
        mark.read_bytes()
    except OSError as error:
        raise unseen(f"the driver's folder {mark.parent}", error) from error


def unseen(folder: str, error: OSError) -> FolderNotShared:
    """Return the error of a folder that this machine does not see."""
    return FolderNotShared(
        f"node {socket.gethostname()} does not see {folder} ({error.strerror}); mount TROUPE_HOME "
        "at the same path on every node (docs/getting-started.md)"
    )
