"""Identifies the current start of the bundled Ray. Each start first ends all processes of the previous one.

A job that was submitted to an earlier start has therefore ended, including its driver.
"""

import os
import secrets
from pathlib import Path

VARIABLE = "TROUPE_BUNDLED_RAY"
"""Names the file with the id of the current start; set only if the cluster is the bundled Ray."""


def note_start(file: Path) -> None:
    """Record a new start of Ray; the previous one has ended."""
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    fresh.write_text(secrets.token_hex(8))
    fresh.replace(file)


def present_cluster() -> str:
    """The id of the current start; empty if the cluster is another one or the file cannot be read."""
    try:
        return Path(os.environ.get(VARIABLE, "") or os.devnull).read_text().strip()
    except OSError:
        return ""


def cluster_has_ended(cluster: str) -> bool:
    """Whether a job's `present_cluster` is an earlier start of the bundled Ray."""
    now = present_cluster()
    return bool(cluster) and bool(now) and cluster != now
