"""Short jobs by kind."""

from collections.abc import Callable
from typing import Any

from workers.jobs.context import JobContext
from workers.jobs.plays import dry_run, evaluate, match
from workers.jobs.talk import talk

JOBS: dict[str, Callable[[JobContext], dict[str, Any]]] = {
    "dry_run": dry_run,
    "evaluate": evaluate,
    "match": match,
    "talk": talk,
}
"""Each plays, keeps its episodes in the job's folder, and returns figures (JSON)."""
