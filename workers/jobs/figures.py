"""What comes out of episodes that were played, as figures."""

from collections.abc import Iterable
from statistics import stdev
from typing import Any

from training_core.config.effects.unused import unused_settings
from training_core.config.kinds import AnyConfig
from training_core.errors import EnvironmentFailure
from workers.jobs.intervals import wilson
from workers.protocol.records import EpisodeFacts

KEPT = 200
"""Episodes of one job that are kept whole."""


def figures(facts: Iterable[EpisodeFacts]) -> dict[str, Any]:
    """Success (with its 95 % interval) where the environment knows it, return and its standard deviation over episodes,
    rewards by role. Failed ones are no success and have no return. Raises EnvironmentFailure where all of them failed.
    """
    items = list(facts)
    sound = [item for item in items if not item.failed]
    if items and not sound:
        raise EnvironmentFailure(
            f"all {len(items)} episodes failed. One of them: {items[0].error or 'no reason is known'}. Correct the agent or the "
            "environment, and play again"
        )
    roles = list(dict.fromkeys(role for item in sound for role in item.rewards))
    count, won = len(sound) or 1, sum(item.success is True for item in items)
    known = any(item.success is not None for item in items)
    returns = [item.episode_return for item in sound]
    return {
        "episodes": len(items),
        **({"success": won / len(items), "success_interval": wilson(won, len(items))} if known else {}),
        "return": sum(returns) / count,
        **({"return_std": stdev(returns)} if len(returns) > 1 else {}),
        "length": sum(item.turns for item in sound) / count,
        "tokens": sum(item.tokens for item in items),
        "failed": len(items) - len(sound),
        "rewards": {role: sum(item.rewards.get(role, 0.0) for item in sound) / count for role in roles},
    }


def unused_told(config: AnyConfig) -> list[dict[str, str]]:
    """Settings without effect, for a dry run's result."""
    return [{"path": each.path, "why": each.why} for each in unused_settings(config)]
