"""Reward functions by the `type` of their config: import path and arguments."""

from typing import Any

from training_core.config.rewards import RewardFunction

REWARDS: dict[str, str] = {"math": "training_core.llm.rewards.math:MathReward", "custom": ""}
"""type -> import path; a custom function has its own."""
_NOT_ARGUMENTS = {"type", "timeout", "retries", "processes", "memory_mib", "path", "args"}


def reward_source(section: RewardFunction) -> tuple[str, dict[str, Any]]:
    """(import path, keyword arguments) of a config's reward function."""
    own = section.model_dump(mode="json")
    args = {name: value for name, value in own.items() if name not in _NOT_ARGUMENTS}
    return REWARDS[section.type] or own["path"], args | own.get("args", {})
