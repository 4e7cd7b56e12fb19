"""Results of a trainer of small-network agents: plain lists and numbers, cheap to pickle."""

from dataclasses import dataclass, field
from typing import Any

from training_core.marl.environments.base import Failure


@dataclass(frozen=True)
class EpisodeResult:
    """The metrics of one finished episode."""

    rewards: dict[str, float]
    """By role: the environment's rewards of its agents, summed over agents and steps of the episode."""
    length: int
    """Number of steps."""
    truncated: bool
    """Truncated, not terminated: by the environment's step limit, or because it failed."""
    success: bool | None = None
    """Success of all agents together, if the environment reports it."""
    failure: Failure | None = None
    """Error of a failed episode; its rewards are those before its last step."""
    role_success: dict[str, bool] = field(default_factory=dict)
    """By role: whether all its agents with a reported success succeeded."""
    agent_success: dict[str, bool] = field(default_factory=dict)
    """Success by agent, if the environment reports it."""


@dataclass(frozen=True)
class RecordedStep:
    """One step of a recorded episode."""

    board: dict[str, Any] | None
    """The state before the actions (see training_core.boards)."""
    actions: dict[str, str]
    """By agent: its action as text, e.g. "right"."""
    rewards: dict[str, float]
    """By agent: its reward in this step."""


@dataclass
class RecordedEpisode:
    """One recorded episode, step by step."""

    index: int
    """Its index among the episodes of the evaluation."""
    recorded_steps: list[RecordedStep]
    roles: dict[str, tuple[str, ...]]
    """Agents by role."""
    result: EpisodeResult
    final_board: dict[str, Any] | None
    """The final state."""


@dataclass
class Collection:
    """Episodes that ended while steps were collected, or an evaluation's."""

    episodes: list[EpisodeResult]
    steps: int
    """Number of environment steps, over all environments."""
    recordings: list[RecordedEpisode] = field(default_factory=list)
