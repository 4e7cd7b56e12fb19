"""What a trainer of small-network agents hands over: plain lists and numbers, cheap to pickle."""

from dataclasses import dataclass, field
from typing import Any

from training_core.marl.environments.base import Failure


@dataclass(frozen=True)
class Played:
    """The figures of one episode that came to its end."""

    rewards: dict[str, float]
    """By role: what its agents earned in the whole episode, summed over agents and steps, as the environment gave it."""
    length: int
    """Steps."""
    truncated: bool
    """Cut off, not ended by itself: by the environment's limit of steps, or because it failed."""
    success: bool | None = None
    """Of all agents together, where the environment says so."""
    failure: Failure | None = None
    """Of one that broke off; its rewards are those before its last step."""
    role_success: dict[str, bool] = field(default_factory=dict)
    """By role, of whose agents the environment says so: whether all of these succeeded."""
    agent_success: dict[str, bool] = field(default_factory=dict)
    """By agent, where the environment says so."""


@dataclass(frozen=True)
class Moment:
    """One step of an episode that is kept for reading."""

    board: dict[str, Any] | None
    """The state that was acted on (see training_core.boards)."""
    actions: dict[str, str]
    """By agent: its action in words, e.g. "right"."""
    rewards: dict[str, float]
    """By agent: what it earned in this step."""


@dataclass
class Story:
    """One episode that is kept for reading, step by step."""

    index: int
    """Its place among the episodes of the evaluation."""
    moments: list[Moment]
    roles: dict[str, tuple[str, ...]]
    """Agents by role."""
    played: Played
    final_board: dict[str, Any] | None
    """The state that it ended in."""


@dataclass
class Collection:
    """Episodes that ended while steps were collected, or an evaluation's."""

    episodes: list[Played]
    steps: int
    """Environment steps that were made, over all environments."""
    stories: list[Story] = field(default_factory=list)
