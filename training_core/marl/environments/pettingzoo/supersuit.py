"""SuperSuit's wrappers around a PettingZoo environment, as configured."""

from typing import Any

from training_core.errors import ConfigError
from training_core.marl.environments.environment_config import SuperSuit
from training_core.marl.environments.optional_packages import import_optional

REMEDY = "pip install --no-deps supersuit on the machine that runs the workers (`make run` does), then launch again"
"""Without tinyscaler, which has no wheels for Python 3.13 and which these wrappers do not use."""


def wrap(environment: Any, section: SuperSuit) -> Any:
    """Normalise, pad observations, pad actions, stack frames: in this order. Raises ConfigError if one cannot be applied."""
    if section == SuperSuit():
        return environment
    suit = import_optional("supersuit", "environment.supersuit", REMEDY)
    wrappers = [
        ("normalise_observations", section.normalise_observations, suit.normalize_obs_v0),
        ("pad_observations", section.pad_observations, suit.pad_observations_v0),
        ("pad_action_space", section.pad_action_space, suit.pad_action_space_v0),
        ("frame_stack", section.frame_stack > 1, lambda env: suit.frame_stack_v1(env, section.frame_stack)),
    ]
    for field, wanted, wrapper in wrappers:
        if wanted:
            try:
                environment = wrapper(environment)
            except (AssertionError, TypeError, ValueError) as error:
                raise ConfigError({f"environment.supersuit.{field}": f"does not fit: {error}"}) from error
    return environment
