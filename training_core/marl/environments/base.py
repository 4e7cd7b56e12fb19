"""Environments of small-network agents: B of them stepped at once, on arrays.

Letters: B environments, n agents of a role, D numbers of an observation, A actions (choices, of all sets together, or numbers of a
continuous action), K sets of choices, S numbers of what a centralised critic sees.

Agents of one role have observations and actions of one size; an environment pads narrower ones (observations with zeros, actions
with choices that its masks forbid). What belongs to a role comes in a dict by the role's name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from training_core.marl.environments.keeping import Kept

Reals = NDArray[np.float32]
Flags = NDArray[np.bool_]
Actions = NDArray[np.int64] | NDArray[np.float32]
"""(B, n) choices, (B, n, K) a choice from each of several sets, or (B, n, A) continuous."""


@dataclass(frozen=True)
class Choices:
    """One of `count` actions."""

    count: int
    names: tuple[str, ...] = ()
    """For people, in the order of the actions; empty where they have no names."""

    @property
    def counts(self) -> tuple[int, ...]:
        """Of its one set."""
        return (self.count,)


@dataclass(frozen=True)
class SeveralChoices:
    """One action from each of several sets, all at once. Masks have the choices of one set after those of the other."""

    counts: tuple[int, ...]
    """Actions of each set."""


@dataclass(frozen=True)
class Continuous:
    """Numbers within bounds, one tuple entry for each."""

    low: tuple[float, ...]
    high: tuple[float, ...]


ActionKind = Choices | SeveralChoices | Continuous


@dataclass(frozen=True)
class RoleSpec:
    """A role's agents."""

    agents: tuple[str, ...]
    """Their names; n of them."""
    observation_dim: int
    """D."""
    actions: ActionKind
    widths: tuple[int, ...] = ()
    """Of continuous actions, how many numbers each agent has; the others are padding. Empty where all agents have all."""


@dataclass(frozen=True)
class Spec:
    """What is played, for whom."""

    roles: Mapping[str, RoleSpec]
    state_dim: int = 0
    """S of the environment's own `critic_obs`; 0 where it has none, and the joint observation takes its place."""
    max_steps: int = 0
    """Longest episode; 0 where that is not known."""


@dataclass
class View:
    """What agents, and a centralised critic, see of B environments."""

    observations: dict[str, Reals]
    """By role (B, n, D)."""
    masks: dict[str, Flags] = field(default_factory=dict)
    """By role (B, n, A): choices that are allowed now; a role that may always do everything is left out."""
    state: Reals | None = None
    """(B, S), where the environment has its own."""
    alive: dict[str, Flags] = field(default_factory=dict)
    """By role (B, n): agents that take part now. A role is in every view of an environment, or in none where its agents always do."""


@dataclass(frozen=True)
class Failure:
    """Why an episode broke off."""

    error: str
    """For people; names the environment."""
    lost: bool = False
    """The process of the environment died: it may itself be well."""


@dataclass(frozen=True)
class Success:
    """What an environment says of an episode that has ended."""

    whole: bool | None = None
    """Of all agents together."""
    agents: Mapping[str, bool] = field(default_factory=dict)
    """By agent, for those of whom it says so."""


@dataclass
class Transition:
    """What came of a step. Environments whose episode ended stand at the start of the next one already."""

    view: View
    """What the next actions are chosen from."""
    rewards: dict[str, Reals]
    """By role (B, n): what each agent earned in this step."""
    terminated: Flags
    """(B,): the episode came to its own end; nothing follows."""
    truncated: Flags
    """(B,): the episode was cut off; values bootstrap from `final`."""
    final: View | None = None
    """The last states of episodes that ended in this step; other environments' rows mean nothing. None where none ended."""
    last_boards: dict[int, dict[str, Any] | None] = field(default_factory=dict)
    """The last states as pictures, of the environments that were watched and whose episode ended in this step."""
    failures: dict[int, Failure] = field(default_factory=dict)
    """By row, of environments that failed in this step: truncated, with rewards and last states that mean nothing, and no last board."""
    agent_terminated: dict[str, Flags] = field(default_factory=dict)
    """By role (B, n): agents that came to an end of their own in this step, in an episode that may go on. An agent that leaves without it
    was cut off. A role is in every transition, or in none where its agents end with their episode."""
    successes: dict[int, Success] = field(default_factory=dict)
    """By row, of episodes that ended in this step and said whether they succeeded."""


class VectorEnvironment(Protocol):
    """B environments. Arrays that are handed over belong to the caller: a later step does not change them."""

    @property
    def spec(self) -> Spec: ...

    @property
    def count(self) -> int:
        """B."""
        ...

    def reset(self, seed: int, first: int = 0) -> View:
        """Begin B new episodes, all of which (and those that follow them) depend on `seed`, `first` and B alone.

        `first`: these are the environments from that number on of a larger whole, whose shares are stepped apart. Where every
        environment's episodes follow from `seed` and its own number (see seeds.py), it does not matter how the whole is shared.
        """
        ...

    def step(self, actions: Mapping[str, Actions], watched: Sequence[int] = ()) -> Transition:
        """One step of all environments, by role; of the `watched` ones, last boards are kept.

        Where environments are stepped one by one, one that fails is told in the transition, and begins its next episode. Raises
        EnvironmentFailure where none can go on: all are stepped at once, or one cannot begin an episode.
        """
        ...

    def board(self, index: int) -> dict[str, Any] | None:
        """The present state of one environment as a picture (training_core.boards: plane or grid); None where it has none."""
        ...

    def episodes(self) -> Kept | None:
        """The episodes under way, as arrays from which `go_on` continues them; None where they cannot be kept."""
        ...

    def go_on(self, kept: Mapping[str, NDArray[Any]]) -> View | None:
        """Continue the episodes that `episodes` of equal environments gave: what is seen in them now. None where these do not play
        the same again from the same seed and actions; they need a reset then."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


def last_boards(
    environments: VectorEnvironment, watched: Sequence[int], ended: Flags
) -> dict[int, dict[str, Any] | None]:
    """Pictures of the watched environments whose episode has just ended (B,); to be taken before the next one begins."""
    return {index: environments.board(index) for index in watched if ended[index]}
