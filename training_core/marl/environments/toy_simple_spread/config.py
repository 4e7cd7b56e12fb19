"""The config of toy_simple_spread."""

from typing import Literal

from pydantic import Field

from training_core.marl.environments.environment_config import MarlEnvironment


class ToySimpleSpread(MarlEnvironment):
    """Each agent names a slot; the team reward depends on how many different slots are named. Every agent gets an equal share."""

    type: Literal["toy_simple_spread"] = "toy_simple_spread"
    """Coverage of slots, without physics."""
    num_agents: int = Field(5, ge=1, le=99)
    """Number of agents and of slots."""
    max_cycles: int = Field(25, ge=1)
    """Steps of an episode."""
    coverage_reward: float = 1.0
    """Reward per slot that is named."""
    collision_penalty: float = 1.0
    """Penalty per agent beyond the first on a slot."""
