"""The config of simple_hetero."""

from typing import Literal

from pydantic import Field

from training_core.marl.environments.environment_config import MarlEnvironment


class SimpleHetero(MarlEnvironment):
    """Scouts see a noisy hint of a hidden target and signal; workers see the mean signal and choose. Every agent gets
    an equal share of the reward.
    """

    type: Literal["simple_hetero", "simple_hetero_pz"] = "simple_hetero"
    """simple_hetero, vectorised; simple_hetero_pz, the same as a PettingZoo environment."""
    num_scouts: int = Field(2, ge=1, le=64)
    """Number of agents that see the hint."""
    num_workers: int = Field(2, ge=1, le=64)
    """Number of agents that choose a task."""
    num_targets: int = Field(4, ge=2, le=64)
    """Number of tasks, one of which is the hidden target of an episode."""
    num_signals: int = Field(6, ge=2, le=64)
    """Number of signals of a scout; the agents learn their meaning."""
    max_cycles: int = Field(25, ge=1)
    """Steps of an episode."""
    hint_noise: float = Field(0.1, ge=0.0)
    """Standard deviation of the noise added to the hint."""
    match_reward: float = 1.0
    """Reward per worker that chose the target."""
    mismatch_penalty: float = 0.25
    """Penalty per worker that chose another task."""
