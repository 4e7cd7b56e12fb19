"""The config of simple_foraging."""

from typing import Literal, Self

from pydantic import Field

from training_core.config.base import cross_field
from training_core.marl.environments.environment_config import MarlEnvironment


class SimpleForaging(MarlEnvironment):
    """Agents on a grid gather food. Every agent gets an equal share of the team's reward."""

    type: Literal["simple_foraging", "simple_foraging_pz"] = "simple_foraging"
    """simple_foraging, vectorised; simple_foraging_pz, the same as a PettingZoo environment."""
    num_agents: int = Field(3, ge=1, le=100)
    """Number of agents."""
    grid_size: int = Field(6, ge=2, le=100)
    """Rows and columns of the grid, in cells."""
    num_food: int = Field(4, ge=1, le=1000)
    """Number of pieces of food."""
    max_cycles: int = Field(50, ge=1)
    """Steps after which an episode is truncated."""
    collect_reward: float = 1.0
    """Reward per piece of food."""
    step_penalty: float = 0.01
    """Penalty per step."""
    completion_reward: float = 2.0
    """Reward when the last piece is gathered."""

    @cross_field
    def _all_have_a_square(self) -> Self:
        if self.num_agents + self.num_food > self.grid_size**2:
            raise ValueError(
                f"num_food: agents and food need more than the {self.grid_size**2} squares of the grid"
            )
        return self
