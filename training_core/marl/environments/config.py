"""Config classes of small networks' environments: settings that they share, and one class for each `type` (the tags are MARLKit's
registry names). Imports no numpy.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from training_core.config.base import Arguments, EnvironmentSection, Section, cross_field
from training_core.config.effects import Effects, Place
from training_core.errors import InvalidValue
from training_core.importing import IMPORT_PATH


class MarlEnvironment(EnvironmentSection):
    """Settings shared by all environments of small-network agents."""

    roles: ClassVar[tuple[str, ...]] = ("agents",)
    role_preset: ClassVar[str] = "spread_mappo"
    reward: Literal["team_sum", "team_mean", "agent"] = "team_sum"
    """What an agent learns from: the sum or the mean over its role's agents, or its own reward."""

    keeps_episodes: ClassVar[bool] = True
    """Whether unfinished episodes can be stored in checkpoints."""

    @classmethod
    def fixed_roles(cls, section: Mapping[str, Any]) -> tuple[str, ...]:
        """With `members`, these name the roles."""
        return () if cls.open_roles and section.get("members") else cls.roles

    @property
    def longest(self) -> int:
        """Steps of the longest episode; 0 if the config does not determine it."""
        return int(vars(self)["max_cycles"]) if "max_cycles" in type(self).model_fields else 0


def _is_native(environment: Any) -> bool:
    return getattr(environment, "backend", "mpe2") != "mpe2"


def _observations_differ(at: Place) -> str:
    environment = at.config.environment
    alike = _is_native(environment) and len(environment.roles) == 1
    return f"all agents of {environment.type} have observations of the same size" if alike else ""


def _actions_differ(at: Place) -> str:
    environment = at.config.environment
    return f"all agents of {environment.type} have the same actions" if _is_native(environment) else ""


class SuperSuit(Section):
    """Wrappers of the package SuperSuit, applied in this order. Native environments stack and pad themselves, with the same result."""

    effects: ClassVar[Effects] = {
        "pad_observations": _observations_differ,
        "pad_action_space": _actions_differ,
    }
    normalise_observations: bool = False
    """Scale observations to 0 to 1 by the bounds of their space (normalize_obs_v0); needs finite bounds, which MPE does not have."""
    pad_observations: bool = False
    """Pad observations with zeros to the widest agent's (pad_observations_v0)."""
    pad_action_space: bool = False
    """Pad action spaces to the largest agent's (pad_action_space_v0)."""
    frame_stack: int = Field(1, ge=1, le=64)
    """Number of latest observations that an agent sees together (frame_stack_v1); 1 for none."""


class Wrapped(MarlEnvironment):
    """An environment whose copies are stepped one by one behind the vectorised interface."""

    supersuit: SuperSuit = SuperSuit()
    """Wrappers around the environment."""
    strict_agents: bool = True
    """Fail if an agent appears during an episode, or leaves it without having terminated or been truncated."""
    action_masks: bool = True
    """Use `action_mask` from each agent's info or observation, if present."""


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


class Mpe(Wrapped):
    """Settings shared by the multi-particle environments (MPE): from the package mpe2, or from older versions of PettingZoo."""

    max_cycles: int = Field(25, ge=1)
    """Steps of an episode."""
    continuous_actions: bool = False
    """Five continuous forces from 0 to 1 instead of one of five moves."""

    @cross_field
    def _observations_have_no_bounds(self) -> Self:
        if self.supersuit.normalise_observations:
            raise InvalidValue(
                f"supersuit.normalise_observations: observations of {self.type} have no finite bounds to scale them by.",
                remedy="Remove it; values are normalised by algorithm.normalise_values",
            )
        return self


class NativeMpe(Mpe):
    """MPE environments that Troupe implements vectorised, with the numerical results of mpe2."""

    backend: Literal["native", "mpe2"] = "native"
    """native: vectorised; mpe2: the package's environments, stepped one by one (needs the extra `marl`)."""

    @cross_field
    def _native_ones_are_not_wrapped(self) -> Self:
        for field, remedy in (
            ("strict_agents", "agents never appear or disappear"),
            ("action_masks", "all actions are always allowed"),
        ):
            if self.backend != "mpe2" and not getattr(self, field):
                where = f"on the {self.backend} {self.type}, where {remedy}"
                raise InvalidValue(
                    f"{field}: has no effect {where}.",
                    remedy='Remove it, or set environment.backend = "mpe2"',
                )
        return self


class TwoSides:
    """The roles of an environment with adversaries."""

    roles: ClassVar[tuple[str, ...]] = ("adversaries", "good")
    role_preset: ClassVar[str] = "tag_mappo"


class SimpleSpread(NativeMpe):
    """N agents cover N landmarks and avoid collisions."""

    type: Literal["mpe_simple_spread"] = "mpe_simple_spread"
    """MPE simple_spread."""
    backend: Literal["native", "mpe2", "torch"] = "native"  # type: ignore[assignment]  # one more than the others
    """native: vectorised; torch: the same on the networks' device; mpe2: the package's environments (needs the extra `marl`)."""
    num_agents: int = Field(3, ge=1, le=100)
    """Number of agents and of landmarks."""
    local_ratio: float = Field(0.5, ge=0.0, le=1.0)
    """Weight of an agent's own collisions relative to the distance of all landmarks."""

    @cross_field
    def _worlds_on_a_device_are_not_wrapped(self) -> Self:
        if self.backend == "torch" and self.supersuit != type(self.supersuit)():
            raise InvalidValue(
                'supersuit: backend = "torch" has no wrappers.',
                remedy='Remove them, or set environment.backend = "native"',
            )
        return self


class SimpleReference(NativeMpe):
    """Two agents tell each other which landmark to go to."""

    type: Literal["mpe_simple_reference"] = "mpe_simple_reference"
    """MPE simple_reference."""
    local_ratio: float = Field(0.5, ge=0.0, le=1.0)
    """Weight of an agent's own reward relative to the team's."""


class SimplePush(TwoSides, NativeMpe):
    """An agent goes to a landmark and an adversary keeps it away."""

    type: Literal["mpe_simple_push"] = "mpe_simple_push"
    """MPE simple_push."""


class SimpleAdversary(TwoSides, NativeMpe):
    """Good agents cover a landmark that an adversary has to guess."""

    type: Literal["mpe_simple_adversary"] = "mpe_simple_adversary"
    """MPE simple_adversary."""
    num_agents: int = Field(2, ge=1, le=100)
    """Number of good agents and of landmarks."""


class SimpleTag(TwoSides, NativeMpe):
    """Slow adversaries chase faster good agents around obstacles."""

    type: Literal["mpe_simple_tag"] = "mpe_simple_tag"
    """MPE simple_tag (predator and prey)."""
    num_good: int = Field(1, ge=1, le=100)
    """Number of good agents, which flee."""
    num_adversaries: int = Field(3, ge=1, le=100)
    """Number of adversaries, which chase."""
    num_obstacles: int = Field(2, ge=0, le=100)
    """Number of obstacles."""


class SimpleCrypto(TwoSides, Mpe):
    """Alice sends Bob a message encrypted with a shared key; Eve listens."""

    type: Literal["mpe_simple_crypto"] = "mpe_simple_crypto"
    """MPE simple_crypto."""


class SimpleWorldComm(TwoSides, Mpe):
    """Tag with food, forests to hide in, and a leader that speaks to the adversaries."""

    type: Literal["mpe_simple_world_comm"] = "mpe_simple_world_comm"
    """MPE simple_world_comm."""
    num_good: int = Field(2, ge=1, le=100)
    """Number of good agents."""
    num_adversaries: int = Field(4, ge=1, le=100)
    """Number of adversaries, including the leader."""
    num_obstacles: int = Field(1, ge=0, le=100)
    """Number of obstacles."""
    num_food: int = Field(2, ge=0, le=100)
    """Number of pieces of food."""
    num_forests: int = Field(2, ge=0, le=100)
    """Number of forests."""


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


class PettingZoo(Wrapped):
    """Any PettingZoo parallel environment, by import path."""

    import_fields: ClassVar[tuple[str, ...]] = ("path",)
    open_roles: ClassVar[bool] = True
    role_fields: ClassVar[tuple[str, ...]] = ("members",)
    type: Literal["pettingzoo"] = "pettingzoo"
    """A parallel environment of custom code or of a package."""
    path: str = Field(pattern=IMPORT_PATH)
    """package.module:function that creates the environment, e.g. mypackage.my_env:parallel_env."""
    args: Arguments = {}
    """Keyword arguments of the function."""
    members: dict[str, tuple[str, ...]] = {}
    """Agents of each role, by name prefix: {adversaries = ["adversary_"]}. Empty: one role has all of them."""


class GymnasiumVector(MarlEnvironment):
    """A Gymnasium environment: of one agent, vectorised by Gymnasium, or of a team whose spaces are tuples."""

    type: Literal["gymnasium"] = "gymnasium"
    """A registered environment, e.g. CartPole-v1."""
    import_fields: ClassVar[tuple[str, ...]] = ("id",)
    id: str = Field("CartPole-v1", max_length=200, pattern=r"^([\w.]+:)?[\w./-]+$")
    """Registered name; module:name for an environment that its module registers on import."""
    args: Arguments = {}
    """Keyword arguments of the environment."""


class Vmas(MarlEnvironment):
    """A scenario of the vectorised simulator VMAS (arXiv 2207.03530)."""

    open_roles: ClassVar[bool] = True
    role_fields: ClassVar[tuple[str, ...]] = ("members",)
    keeps_episodes: ClassVar[bool] = False
    type: Literal["vmas"] = "vmas"
    """Needs the extra `marl`."""
    scenario: str = Field("simple_spread", max_length=100)
    """Name of a VMAS scenario."""
    max_cycles: int = Field(100, ge=1)
    """Steps of an episode."""
    continuous_actions: bool = False
    """Continuous forces instead of discrete moves."""
    args: Arguments = {}
    """Keyword arguments of the scenario, such as n_agents."""
    members: dict[str, tuple[str, ...]] = {}
    """Agents of each role, by name prefix, as for pettingzoo. Empty: one role has all of them."""


class CustomMarl(MarlEnvironment):
    """A custom class with MARLKit's interface. Every agent gets an equal share of its single reward."""

    import_fields: ClassVar[tuple[str, ...]] = ("path",)
    type: Literal["custom_marl"] = "custom_marl"
    """reset(seed) -> (obs, critic_obs); step(actions) -> (obs, critic_obs, reward, done, info)."""
    path: str = Field(pattern=IMPORT_PATH)
    """package.module:Class with num_agents, obs_dim, action_dim, reset and step; or a factory that returns
    (environment, obs_dim, action_dim, num_agents).
    """
    args: Arguments = {}
    """Arguments that the class or factory is called with."""
