"""Results of played episodes, with confidence intervals of proportions."""

import math
from collections.abc import Iterable
from statistics import stdev
from typing import Any

from training_core.config.effects import unused_settings
from training_core.config.kinds import AnyConfig
from training_core.errors import EnvironmentFailure
from workers.protocol.records import EpisodeFacts

Z = 1.959964
"""Quantile of a two-sided 95 % interval."""


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


MAX_EPISODES = 200
"""Maximum number of episodes that a job stores."""


def figures(facts: Iterable[EpisodeFacts]) -> dict[str, Any]:
    """Success with its 95 % interval if the environment defines it, return and its standard deviation over episodes, rewards
    by role. Failed episodes count as not successful and have no return. Raises EnvironmentFailure if all episodes failed.
    """
    items = list(facts)
    played = [item for item in items if not item.failed]
    if items and not played:
        raise EnvironmentFailure(
            f"all {len(items)} episodes failed. One of them: {items[0].error or 'no reason is known'}. Correct the agent or the "
            "environment, and play again"
        )
    roles = list(dict.fromkeys(role for item in played for role in item.rewards))
    count, won = len(played) or 1, sum(item.success is True for item in items)
    has_success = any(item.success is not None for item in items)
    returns = [item.episode_return for item in played]
    return {
        "episodes": len(items),
        **({"success": won / len(items), "success_interval": wilson(won, len(items))} if has_success else {}),
        "return": sum(returns) / count,
        **({"return_std": stdev(returns)} if len(returns) > 1 else {}),
        "length": sum(item.turns for item in played) / count,
        "tokens": sum(item.tokens for item in items),
        "failed": len(items) - len(played),
        "rewards": {role: sum(item.rewards.get(role, 0.0) for item in played) / count for role in roles},
    }


def unused_documents(config: AnyConfig) -> list[dict[str, str]]:
    """Settings without effect, as documents for a dry run's result."""
    return [{"path": setting.path, "why": setting.why} for setting in unused_settings(config)]
