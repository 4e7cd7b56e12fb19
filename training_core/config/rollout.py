"""Collection of experience, and the processes it runs in."""

from typing import Annotated, Literal

from pydantic import Field

from training_core.config.base import Section


class TurnTree(Section):
    """At each agent's turn, K candidates from one state; one of them is carried on."""

    type: Literal["turn_tree"] = "turn_tree"
    """Tree sampling, turn by turn (AT-GRPO)."""
    carry: Literal["best", "sampled"] = "best"
    """Which candidate goes on: best (the paper's: highest reward) or sampled (one at random)."""


class Episodes(Section):
    """K independent episodes of each task, compared by what each role earned in the whole episode (GRPO)."""

    type: Literal["episodes"] = "episodes"
    """Whole episodes are the candidates: groups are (task, role)."""


Workflow = Annotated[TurnTree | Episodes, Field(discriminator="type")]
"""One class per workflow, told apart by `type`."""

WORKFLOW_CONFIGS: dict[str, type[Section]] = {"turn_tree": TurnTree, "episodes": Episodes}


class Rollout(Section):
    """How much is collected per iteration, and what is done with stale data."""

    tasks: int = Field(48, ge=1)
    """Tasks played per iteration."""
    group_size: int = Field(8, ge=1)
    """Candidates per group, K: answers of a turn, or whole episodes of a task, as the workflow has it. A group of one has no advantage."""
    stale: Literal["error", "drop"] = "error"
    """Tokens older than the policy's version: error refuses them by name of both versions, drop leaves them out and counts them."""


class Resources(Section):
    """Processes that the whole run shares."""

    environment_workers: int = Field(2, ge=1, le=10_000)
    """Processes that step environments."""
    environments_per_worker: int = Field(32, ge=1)
    """Environments that one such process hosts at a time; workers x this must hold the tasks of an iteration."""
    environment_cpus: float = Field(0.1, ge=0.0)
    """CPU cores per environment worker (for scheduling)."""
    threads: int = Field(1, ge=1)
    """Threads per process for tensor work."""
