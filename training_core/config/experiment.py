"""What every run config has, for all kinds of agents: its name and length, and what is stored of it."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import Field

from training_core.config.base import Section, cross_field
from training_core.config.effects import Effects, Place, needs, unless
from training_core.config.evaluation import Checkpoint, Reporting, best_is_measured
from training_core.config.health import RunHealth
from training_core.errors import InvalidValue


class AgentKind(StrEnum):
    """The kind of agents that a run trains."""

    LANGUAGE_MODELS = "language_models"
    NETWORKS = "networks"


def _stops_within_the_run(at: Place) -> str:
    every = at.config.evaluation.every if at.config.checkpoint.is_best_by_evaluation else 1
    patience, length = at.section.early_stopping * max(every, 1), at.section.iterations
    if patience < length:
        return ""
    return (
        f"{at.section.early_stopping} measurements take {patience} of run.iterations = {length}, so that the run never "
        "finishes early; set it lower"
    )


class Run(Section):
    """Name and length of the run."""

    effects: ClassVar[Effects] = needs("early_stopping", best_is_measured) | needs(
        "min_delta", unless("early_stopping", 0)
    )
    orders: ClassVar[Effects] = {"early_stopping": _stops_within_the_run}
    name: str = Field("", max_length=120)
    """Name shown in tables; empty uses the preset's or the environment's name."""
    description: str = Field("", max_length=4000)
    """Free text about what this run is for."""
    tags: tuple[str, ...] = ()
    """Labels for filtering runs."""
    seed: int = Field(0, ge=0, le=2**31 - 1)
    """Seed of tasks, sampling and initialisation. The same config and seed give the same curves (fp32)."""
    iterations: int = Field(100, ge=1)
    """Collect-and-update rounds."""
    early_stopping: int = Field(0, ge=0)
    """The run finishes early after this many consecutive measurements of `checkpoint.best_of` that do not improve it; 0 disables."""
    min_delta: float = Field(0.0, ge=0.0)
    """An improvement exceeds the highest value by more than this (early stopping)."""
    max_attempts: int = Field(3, ge=1, le=100)
    """Consecutive failed attempts, without a new checkpoint or a Resume in between, after which the run fails; 1 disables restarts."""
    failure_patience: int = Field(3, ge=1, le=1000)
    """The run fails after this many consecutive iterations, or evaluations, in which every episode failed."""


class ExperimentConfig(Section):
    """One experiment: what configs of language-model agents and of small-network agents have in common.

    Each subclass declares these fields itself, in display order.
    """

    agents: ClassVar[AgentKind]
    """The key of the config's kind in the registries of each layer."""
    if TYPE_CHECKING:
        run: Run
        team: Any
        """Each of its `roles` names a policy and declares whether it is trained."""
        policies: Mapping[str, Any]
        environment: Any
        algorithm: Any
        evaluation: Any
        """Its `every`, `episodes`, `greedy`, `sampled`, `probes`, `mode`, `cpus` and `gpus`."""
        checkpoint: Checkpoint
        reporting: Reporting
        health: RunHealth

        @property
        def batch_factors(self) -> dict[str, int]:
            """What an iteration's answers (of small networks: environment steps) are a product of, by name."""

        @property
        def episodes_per_iteration(self) -> int:
            """Maximum number of training episodes."""

        @property
        def training_slots(self) -> int:
            """Environments that training plays at the same time."""

        @property
        def acting_gpus(self) -> float:
            """GPUs of the largest process that acts."""

    @cross_field
    def _roles_have_policies(self) -> Self:
        for name, role in self.team.roles.items():
            if role.policy not in self.policies:
                raise InvalidValue(
                    f"team.roles.{name}.policy: there is no policy {role.policy!r}",
                    remedy=f"add [policies.{role.policy}] or use one of {', '.join(self.policies)}",
                )
        return self

    @cross_field
    def _the_environment_knows_the_roles(self) -> Self:
        wanted = self.environment.roles
        if not self.environment.open_roles and set(self.team.roles) != set(wanted):
            raise InvalidValue(
                f"team.roles: {self.environment.type} needs the roles {', '.join(wanted)}, not {', '.join(self.team.roles)}.",
                remedy=self._how_to_have_roles(),
            )
        return self

    def _how_to_have_roles(self) -> str:
        wanted = self.environment.roles
        tables = " and ".join(f"[team.roles.{role}]" for role in wanted)
        preset = self.environment.role_preset
        start = f"Start from the preset {preset}, which has these roles, or give" if preset else "Give"
        return f"{start} the team exactly {tables}, each with a policy"

    @cross_field
    def _something_is_trained(self) -> Self:
        if not self.trained_policies:
            raise InvalidValue("team.roles: no role is trained", remedy="set trained = true for at least one")
        return self

    @property
    def models(self) -> dict[str, str]:
        """Base model by used policy; empty for small networks."""
        return {}

    @property
    def networks(self) -> dict[str, Any]:
        """Network by used policy; empty for language models."""
        return {}

    @property
    def separate_seeds(self) -> str:
        """The property for which runs with several seeds need a process each; empty if they can share one."""
        return self.agents.value.replace("_", " ")

    @property
    def fork_source(self) -> str:
        """The checkpoint that the config names as the run's start; empty: none."""
        return ""

    @property
    def returned_role(self) -> str:
        """The role whose return counts as the run's return; empty: the team's return counts."""
        return ""

    @property
    def continued_answers(self) -> dict[str, int]:
        """Maximum number of answers, by role, that only estimate the value of others."""
        return {}

    @property
    def tokens_per_iteration(self) -> int:
        """Maximum number of tokens of training answers."""
        return 0

    @property
    def waits_for_external(self) -> bool:
        """Whether programs outside of the run play its tasks."""
        return False

    @property
    def overlaps(self) -> bool:
        """Whether episodes are collected during updates."""
        return False

    @property
    def publish_every(self) -> int:
        """Updates between publications of weights to the acting processes."""
        return 1

    @property
    def evaluates_beside(self) -> bool:
        """Whether an evaluator plays evaluations during training."""
        section = self.evaluation
        return section.mode == "beside" and bool(section.every and (section.greedy or section.sampled))

    def evaluation_episodes(self, kind: str) -> int:
        """Episodes of one evaluation: of kind "eval" (greedy) or "eval_sampled"."""
        return int(self.evaluation.episodes)

    def epochs_after(self, iteration: int) -> int:
        """How often checkpoint.every_epochs passes over the data have been completed by this iteration; 0 if the data has no end."""
        return 0

    @property
    def used_policies(self) -> tuple[str, ...]:
        """Policies that some role uses, in role order."""
        return tuple(dict.fromkeys(role.policy for role in self.team.roles.values()))

    @property
    def trained_policies(self) -> tuple[str, ...]:
        """Policies that some trained role uses, in role order."""
        return tuple(dict.fromkeys(role.policy for role in self.team.roles.values() if role.trained))
