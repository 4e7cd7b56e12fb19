"""Whether an environment has shaped rewards: rewards besides the one for its goal."""

from collections.abc import Mapping
from typing import Any

from training_core.config.environments import ENVIRONMENT_CONFIGS


def is_shaped(config: Mapping[str, Any]) -> bool:
    """Whether the environment of a config tree rewards more than its goal, so that a return can be high without success."""
    environment = config.get("environment", {})
    section = ENVIRONMENT_CONFIGS.get(environment.get("type", ""))
    return section is not None and any(
        environment.get(field) for field in (*section.local_reward_fields, "shaping")
    )
