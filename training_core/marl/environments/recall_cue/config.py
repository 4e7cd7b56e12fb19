"""The config of recall_cue."""

from typing import Literal

from pydantic import Field

from training_core.marl.environments.environment_config import MarlEnvironment


class RecallCue(MarlEnvironment):
    """A cue at the first step, a choice at the last: without memory no policy beats guessing."""

    type: Literal["recall_cue"] = "recall_cue"
    """A test of an agent's memory."""
    reward: Literal["team_sum", "team_mean", "agent"] = "agent"
    """The reward that an agent learns from."""
    num_agents: int = Field(2, ge=1, le=100)
    """Number of agents; each gets its own cue."""
    num_cues: int = Field(4, ge=2, le=100)
    """Number of cues and of choices."""
    delay: int = Field(8, ge=1)
    """Steps between the cue and the choice."""

    @property
    def longest(self) -> int:
        """One step with the cue, then the delay."""
        return self.delay + 1
