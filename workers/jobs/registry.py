"""Short jobs by kind."""

from collections.abc import Callable
from typing import Any

from training_core.config.marl.run import MarlConfig
from training_core.config.run import RunConfig
from workers.jobs import networks, plays
from workers.jobs.context import JobContext
from workers.jobs.preparing import prepare
from workers.jobs.talk import talk

JOBS: dict[str, Callable[[JobContext[RunConfig]], dict[str, Any]]] = {
    "dry_run": plays.dry_run,
    "evaluate": plays.evaluate,
    "match": plays.match,
    "prepare": prepare,
    "talk": talk,
}
"""Of language models. Each plays, keeps its episodes in the job's folder, and returns figures (JSON)."""
NETWORK_JOBS: dict[str, Callable[[JobContext[MarlConfig]], dict[str, Any]]] = {
    "dry_run": networks.dry_run,
    "evaluate": networks.evaluate,
    "match": networks.match,
}
"""The same of small networks."""
