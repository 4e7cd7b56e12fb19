"""What every run config has, whatever kind of agents learns: its name and length, and what is kept of it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, model_validator

from training_core.config.base import Section
from training_core.config.evaluation import Checkpoint, Reporting
from training_core.config.health import RunHealth


class Run(Section):
    """What the run is called and how long it lasts."""

    name: str = Field("", max_length=120)
    """Shown in tables; empty takes the preset's or the environment's name."""
    description: str = Field("", max_length=4000)
    """Free text about what this run is for."""
    tags: tuple[str, ...] = ()
    """Words to find the run by."""
    seed: int = Field(0, ge=0, le=2**31 - 1)
    """Seed of tasks, sampling and initialisation. Same config and seed, same curves (fp32)."""
    iterations: int = Field(100, ge=1)
    """Collect-and-update rounds."""
    max_attempts: int = Field(3, ge=1, le=100)
    """Attempts lost in a row, without a new checkpoint or a Resume between, after which the run fails; with 1 nothing restarts."""
    failure_patience: int = Field(3, ge=1, le=1000)
    """Iterations in a row, or evaluations, in which every episode failed: after so many the run fails."""


class ExperimentConfig(Section):
    """One experiment: what a config of language-model agents and one of small-network agents have in common.

    Each declares these fields itself, in the order in which they are shown.
    """

    if TYPE_CHECKING:
        run: Run
        team: Any
        """Its `roles` name a policy each, and say whether they are trained."""
        policies: Mapping[str, Any]
        environment: Any
        evaluation: Any
        """Its `every`, `episodes`, `greedy`, `sampled` and `probes`."""
        checkpoint: Checkpoint
        reporting: Reporting
        health: RunHealth

    @model_validator(mode="after")
    def _roles_have_policies(self) -> Self:
        for name, role in self.team.roles.items():
            if role.policy not in self.policies:
                raise ValueError(
                    f"team.roles.{name}.policy: there is no policy {role.policy!r}; "
                    f"add [policies.{role.policy}] or use one of {', '.join(self.policies)}"
                )
        return self

    @model_validator(mode="after")
    def _the_environment_knows_the_roles(self) -> Self:
        wanted = self.environment.roles
        if not self.environment.open_roles and set(self.team.roles) != set(wanted):
            raise ValueError(
                f"team.roles: {self.environment.type} is played by {', '.join(wanted)}, "
                f"not by {', '.join(self.team.roles)}. {self._how_to_have_roles()}"
            )
        return self

    def _how_to_have_roles(self) -> str:
        wanted = self.environment.roles
        tables = " and ".join(f"[team.roles.{role}]" for role in wanted)
        preset = self.environment.role_preset
        start = f"Start from the preset {preset}, which has these roles, or give" if preset else "Give"
        return f"{start} the team exactly {tables}, each with a policy"

    @model_validator(mode="after")
    def _something_is_trained(self) -> Self:
        if not self.trained_policies:
            raise ValueError("team.roles: no role is trained; set trained = true for at least one")
        return self

    @property
    def overlaps(self) -> bool:
        """Whether episodes are collected while policies are updated."""
        return False

    @property
    def publish_every(self) -> int:
        """Updates between publications of weights to those that act."""
        return 1

    def evaluation_episodes(self, kind: str) -> int:
        """Episodes of one evaluation: of kind "eval" (greedy) or "eval_sampled"."""
        return int(self.evaluation.episodes)

    def epochs_after(self, iteration: int) -> int:
        """How often checkpoint.every_epochs passes over the data have been completed by then; 0 where there is no end to them."""
        return 0

    @property
    def used_policies(self) -> tuple[str, ...]:
        """Policies that some role uses, in role order."""
        return tuple(dict.fromkeys(role.policy for role in self.team.roles.values()))

    @property
    def trained_policies(self) -> tuple[str, ...]:
        """Policies that some trained role uses, in role order."""
        return tuple(dict.fromkeys(role.policy for role in self.team.roles.values() if role.trained))
