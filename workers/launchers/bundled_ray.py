"""Which start of the bundled Ray is up. Whoever starts it first ends all processes of the start before.

So a job that was submitted to an earlier start has ended, its driver too: no silence needs to prove that.
"""

import os
import secrets
from pathlib import Path

VARIABLE = "TROUPE_BUNDLED_RAY"
"""Names the file that holds the present start; set only where the cluster is the bundled Ray."""


def note_start(file: Path) -> None:
    """A new start of Ray is about to be made; the one before has ended."""
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    fresh.write_text(secrets.token_hex(8))
    fresh.replace(file)


def present_cluster() -> str:
    """The start that a job is submitted to now; empty where the cluster is another one, or cannot be told."""
    try:
        return Path(os.environ.get(VARIABLE, "") or os.devnull).read_text().strip()
    except OSError:
        return ""


def cluster_has_ended(cluster: str) -> bool:
    """Whether a job's `present_cluster` was an earlier start of the bundled Ray."""
    now = present_cluster()
    return bool(cluster) and bool(now) and cluster != now
