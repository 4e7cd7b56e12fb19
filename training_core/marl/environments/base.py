"""Environments of small-network agents: B of them stepped together, on arrays.

Letters: B environments, n agents of a role, D numbers of an observation, A actions (choices of all sets together, or
components of a continuous action), K sets of choices, S size of a centralised critic's observation.

Agents of one role have observations and actions of the same size; an environment pads narrower ones (observations
with zeros, actions with masked choices). Data of roles is in dicts by role name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from training_core.marl.environments.episodes import Arrays

SHOWN = 1.2
"""A picture of a plane shows at least this distance from the centre."""
Reals = NDArray[np.float32]
Flags = NDArray[np.bool_]
Actions = NDArray[np.int64] | NDArray[np.float32]
"""(B, n) choices, (B, n, K) a choice from each of several sets, or (B, n, A) continuous."""


@dataclass(frozen=True)
class Choices:
    """One of `count` actions."""

    count: int
    names: tuple[str, ...] = ()
    """Display names in the order of the actions; empty if they have none."""

    @property
    def counts(self) -> tuple[int, ...]:
        """Counts of its single set."""
        return (self.count,)


@dataclass(frozen=True)
class SeveralChoices:
    """One action from each of several sets, simultaneously. Masks concatenate the choices of the sets."""

    counts: tuple[int, ...]
    """Actions of each set."""


@dataclass(frozen=True)
class Continuous:
    """Continuous components within bounds, one tuple entry for each."""

    low: tuple[float, ...]
    high: tuple[float, ...]


ActionKind = Choices | SeveralChoices | Continuous


@dataclass(frozen=True)
class Pictures:
    """Flattened pictures at the start of a network's inputs."""

    shape: tuple[int, int, int]
    """As in the observation space."""
    scale: float
    """Factor that brings pixels to 0 to 1: 1/255 for bytes, otherwise 1."""
    count: int = 1


@dataclass(frozen=True)
class RoleSpec:
    """A role's agents."""

    agents: tuple[str, ...]
    """Names of the n agents."""
    observation_dim: int
    """D."""
    actions: ActionKind
    widths: tuple[int, ...] = ()
    """Number of components of each agent's continuous action; the others are padding. Empty if all agents have all."""
    pictures: Pictures | None = None
    """The observation, if it is a picture and of the same shape for all agents."""


@dataclass(frozen=True)
class Spec:
    """Description of an environment and its roles."""

    roles: Mapping[str, RoleSpec]
    state_dim: int = 0
    """S of the environment's `critic_obs`; 0 if it has none, in which case the joint observation is used."""
    max_steps: int = 0
    """Steps of the longest episode; 0 if unknown."""


@dataclass
class View:
    """Observations of B environments for agents and a centralised critic."""

    observations: dict[str, Reals]
    """By role (B, n, D)."""
    masks: dict[str, Flags] = field(default_factory=dict)
    """By role (B, n, A): choices that are currently allowed; a role whose choices are always allowed is omitted."""
    state: Reals | None = None
    """(B, S), if the environment has one."""
    alive: dict[str, Flags] = field(default_factory=dict)
    """By role (B, n): currently active agents. A role is in every view of an environment, or in none if its agents are always active."""


@dataclass(frozen=True)
class Failure:
    """The cause of a failed episode."""

    error: str
    """Message that names the environment."""
    lost: bool = False
    """Whether the environment's process died, which may have another cause than the environment."""


@dataclass(frozen=True)
class Success:
    """The reported success of an episode that has ended."""

    whole: bool | None = None
    """Success of all agents together."""
    agents: Mapping[str, bool] = field(default_factory=dict)
    """Success by agent, for agents with a reported one."""


@dataclass
class Transition:
    """The result of a step. Environments whose episode ended are already at the start of the next one."""

    view: View
    """The observations for the next actions."""
    rewards: dict[str, Reals]
    """By role (B, n): each agent's reward in this step."""
    terminated: Flags
    """(B,): the episode terminated."""
    truncated: Flags
    """(B,): the episode was truncated; values bootstrap from `final`."""
    final: View | None = None
    """The final states of episodes that ended in this step; other environments' rows are undefined. None if none ended."""
    last_boards: dict[int, dict[str, Any] | None] = field(default_factory=dict)
    """The final states as pictures, for watched environments whose episode ended in this step."""
    failures: dict[int, Failure] = field(default_factory=dict)
    """By row, for environments that failed in this step: truncated, with undefined rewards and final states, and no last board."""
    agent_terminated: dict[str, Flags] = field(default_factory=dict)
    """By role (B, n): agents that terminated individually in this step, in an episode that may continue. An agent
    that leaves without it was truncated. A role is in every transition, or in none if its agents end with their
    episode.
    """
    successes: dict[int, Success] = field(default_factory=dict)
    """By row, for episodes that ended in this step with a reported success."""


class VectorEnvironment(Protocol):
    """B environments. Returned arrays belong to the caller: a later step does not change them."""

    @property
    def spec(self) -> Spec: ...

    @property
    def count(self) -> int:
        """B."""
        ...

    def reset(self, seed: int, first: int = 0) -> View:
        """Begin B new episodes, which (like the following ones) depend only on `seed`, `first` and B.

        `first`: the number of the first of these environments within a larger set that is divided into shares. If
        every environment's episodes follow from `seed` and its own number (see episodes.py), the division has no effect.
        """
        ...

    def step(self, actions: Mapping[str, Actions], watched: Sequence[int] = ()) -> Transition:
        """One step of all environments, by role; last boards of the `watched` ones are recorded.

        If environments are stepped one by one, a failed one is reported in the transition and begins its next
        episode. Raises EnvironmentFailure if none can continue: all are stepped together, or one cannot begin an
        episode.
        """
        ...

    def board(self, index: int) -> dict[str, Any] | None:
        """The current state of one environment as a picture (training_core.boards: plane or grid); None if it has none."""
        ...

    def episode_state(self) -> Arrays | None:
        """The unfinished episodes, as arrays from which `go_on` continues them; None if they cannot be stored."""
        ...

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> View | None:
        """Continue the episodes from `episode_state` of equal environments; return their current view. None if the
        environments do not reproduce them from the same seed and actions; they then need a reset.
        """
        ...

    def close(self) -> None:
        """Release resources."""
        ...


def plane(entities: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A picture of entities in a plane. It shows at least SHOWN from the centre, and its bounds grow with distant entities."""
    farthest = max(max(abs(entity["x"]), abs(entity["y"])) for entity in entities)
    edge = max(SHOWN, float(np.ceil(farthest * 2) / 2))
    return {"kind": "plane", "bounds": [-edge, -edge, edge, edge], "entities": list(entities)}


def joined_views(views: Sequence[Any], join: Callable[[list[Any]], Any]) -> View:
    """The views of shares, or of single environments, as one: `join` joins their arrays."""

    def table(name: str) -> dict[str, Any]:
        tables = [getattr(view, name) for view in views]
        return {role: join([table[role] for table in tables]) for role in tables[0]}

    states = [view.state for view in views if view.state is not None]
    return View(table("observations"), table("masks"), join(states) if states else None, table("alive"))


def last_boards(
    environments: VectorEnvironment, watched: Sequence[int], ended: Flags
) -> dict[int, dict[str, Any] | None]:
    """Pictures of the watched environments whose episode has just ended (B,); call before the next one begins."""
    return {index: environments.board(index) for index in watched if ended[index]}
