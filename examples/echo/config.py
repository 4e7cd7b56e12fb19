"""The config of echo."""

from typing import Literal

from pydantic import Field

from training_core.marl.environments.config import MarlEnvironment


class Echo(MarlEnvironment):
    """Every agent sees a number and chooses one: a choice is right if it is the number."""

    type: Literal["echo"] = "echo"
    """The choice of a number that is shown."""
    num_agents: int = Field(2, ge=1, le=100)
    """Number of agents; each sees its own number."""
    num_choices: int = Field(4, ge=2, le=100)
    """Number of choices."""
    max_cycles: int = Field(5, ge=1)
    """Steps of an episode."""
