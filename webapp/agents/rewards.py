"""The label of returns: an environment with rewards besides its goal has a shaped return, which can be high without success."""

from collections.abc import Mapping
from typing import Any

from training_core.config.environments import ENVIRONMENT_CONFIGS


def is_shaped(config: Mapping[str, Any]) -> bool:
    """Whether the environment of a config rewards more than its goal."""
    environment = config.get("environment", {})
    section = ENVIRONMENT_CONFIGS.get(environment.get("type", ""))
    return section is not None and any(
        environment.get(field) for field in (*section.local_reward_fields, "shaping")
    )


def return_label(config: Mapping[str, Any]) -> str:
    """Return "return", or "return (shaped)"."""
    return "return (shaped)" if is_shaped(config) else "return"
