"""Parameters of a short job, its progress reports, and the figures of played episodes, with confidence intervals of proportions."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import stdev
from typing import Any, Generic, TypeVar

from training_core.config.experiment import ExperimentConfig
from training_core.errors import EnvironmentFailure
from workers.protocol import EpisodeFacts
from workers.storage.folders import JobFolder

Z = 1.959964
"""Quantile of a two-sided 95 % interval."""
MAX_EPISODES = 200
"""Maximum number of episodes that a job stores."""
MAX_ASSIGNMENTS = 16
"""With more assignments than this, a match plays only those in which one checkpoint has exactly one role."""
Config = TypeVar("Config", bound=ExperimentConfig)


@dataclass(frozen=True)
class JobContext(Generic[Config]):
    """One short job: its config, weights and parameters."""

    config: Config
    folder: JobFolder
    home: Path
    """TROUPE_HOME, where base models are cached."""
    parameters: Mapping[str, Any]
    checkpoint: Path | None = None
    other: Path | None = None
    """The second checkpoint of a match."""
    local: bool = False
    """Whether runs are launched in one process, without Ray."""

    def progress(self, done: float, text: str) -> None:
        """Report the share done (0 to 1) and the current step."""
        self.folder.write("progress", {"done": min(max(done, 0.0), 1.0), "text": text})


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """The 95 % interval of a proportion; 0 to 1 without trials.

    Wilson's score interval (1927): unlike mean plus or minus a deviation it stays within 0 and 1 and is accurate near both ends.
    """
    if trials == 0:
        return 0.0, 1.0
    share, z = successes / trials, Z**2 / trials
    middle = (share + z / 2) / (1 + z)
    half = math.sqrt(share * (1 - share) * z + z**2 / 4) / (1 + z)
    return max(0.0, middle - half), min(1.0, middle + half)


def figures(facts: Iterable[EpisodeFacts]) -> dict[str, Any]:
    """Success with its 95 % interval if the environment defines it, return and its standard deviation over episodes, rewards
    by role. Failed episodes and those without a reward are left out of all of them, and counted. Raises EnvironmentFailure if
    all episodes failed.
    """
    items = list(facts)
    played = [item for item in items if item.scored and not item.failed]
    if items and all(item.failed for item in items):
        raise EnvironmentFailure(
            f"all {len(items)} episodes failed. One of them: {items[0].error or 'no reason is known'}.",
            remedy="Correct the agent or the environment, and play again",
        )
    roles = list(dict.fromkeys(role for item in played for role in item.rewards))
    count, won = len(played) or 1, sum(item.success is True for item in played)
    has_success = any(item.success is not None for item in played)
    returns = [item.episode_return for item in played]
    return {
        "episodes": len(items),
        **({"success": won / count, "success_interval": wilson(won, count)} if has_success else {}),
        "return": sum(returns) / count,
        **({"return_std": stdev(returns)} if len(returns) > 1 else {}),
        "length": sum(item.turns for item in played) / count,
        "tokens": sum(item.tokens for item in items),
        "failed": sum(item.failed for item in items),
        "unscored": sum(not item.scored for item in items if not item.failed),
        "rewards": {role: sum(item.rewards.get(role, 0.0) for item in played) / count for role in roles},
    }


def checkpoint_assignments(roles: list[str]) -> list[dict[str, str]]:
    """Assignments of the checkpoints "a" and "b" to the roles (or policies), all-a and all-b first."""
    all_assignments = [dict(zip(roles, sides, strict=True)) for sides in product("ab", repeat=len(roles))]
    uniform = [assignment for assignment in all_assignments if len(set(assignment.values())) == 1]
    mixed = [assignment for assignment in all_assignments if assignment not in uniform]
    if len(all_assignments) > MAX_ASSIGNMENTS:
        mixed = [item for item in mixed if 1 in (list(item.values()).count(side) for side in "ab")]
    return uniform + mixed
