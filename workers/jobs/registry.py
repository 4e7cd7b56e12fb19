"""Short jobs by kind."""

from collections.abc import Callable
from typing import Any

from training_core.config.marl.run import MarlConfig
from training_core.config.run import RunConfig
from workers.jobs import networks
from workers.jobs import rollouts as plays
from workers.jobs.base_models import prepare
from workers.jobs.context import JobContext
from workers.jobs.talk import talk

JOBS: dict[str, Callable[[JobContext[RunConfig]], dict[str, Any]]] = {
    "dry_run": plays.dry_run,
    "evaluate": plays.evaluate,
    "match": plays.match,
    "prepare": prepare,
    "talk": talk,
}
"""Jobs of language models. Each stores its episodes in the job's folder, and returns its results as JSON."""
NETWORK_JOBS: dict[str, Callable[[JobContext[MarlConfig]], dict[str, Any]]] = {
    "dry_run": networks.dry_run,
    "evaluate": networks.evaluate,
    "match": networks.match,
}
"""Jobs of small networks; same interface."""
