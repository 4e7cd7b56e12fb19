"""The run config of small-network agents: one tree, strict, with cross-field checks whose messages name the remedy."""

import math
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, field_validator

from training_core.config.base import Section, cross_field
from training_core.config.evaluation import Checkpoint, Reporting
from training_core.config.experiment import AgentKind, ExperimentConfig, Run
from training_core.config.health import NetworkHealth
from training_core.config.marl.algorithms import AnyMarlAlgorithm
from training_core.config.marl.environments import AnyMarlEnvironment
from training_core.config.marl.policies import MarlPolicy
from training_core.config.marl.seed_groups import reason_for_separate_runs
from training_core.config.team import NAME_PATTERN
from training_core.marl.algorithms.mappo.config import Mappo
from training_core.marl.environments.mpe.config import SimpleSpread


class MarlRole(Section):
    """A group of agents within the environment."""

    policy: str = Field(pattern=NAME_PATTERN)
    """Name of the policy of this role's agents."""
    trained: bool = True
    """Whether this role's steps train its policy; false excludes them from training."""


class MarlTeam(Section):
    """The roles of the environment's agents."""

    roles: dict[str, MarlRole] = Field(min_length=1, max_length=64)
    """Roles by name: `agents` if all cooperate, or one role per side."""


def _as_word(fresh: object) -> object:
    """Accept true and false from older configs."""
    return {True: "always", False: "never"}.get(fresh, fresh) if isinstance(fresh, bool) else fresh


def unreached_ends(steps: int, longest: int) -> str:
    """The message that refuses new episodes in every iteration."""
    return (
        f"with new episodes in every iteration, nothing after step {steps} of an episode's {longest} is used for training. "
        f'Set rollout.fresh = "auto" to continue unfinished episodes, or rollout.steps to at least {longest}'
    )


class MarlRollout(Section):
    """Amount of data per iteration."""

    environments: int = Field(32, ge=1, le=100_000)
    """Number of environments that are stepped in parallel."""
    steps: int = Field(100, ge=1)
    """Steps per environment and iteration."""
    fresh: Annotated[Literal["auto", "always", "never"], BeforeValidator(_as_word)] = "auto"
    """Whether an iteration starts new episodes: always; never (it continues stored ones); auto: always, if they fit into `steps`."""

    @property
    def samples(self) -> int:
        """Environment steps of an iteration."""
        return self.environments * self.steps


class MarlResources(Section):
    """Processes of the run."""

    cpus: float = Field(1.0, ge=0.0)
    """CPU cores of the process that acts and updates (for scheduling)."""
    gpus: float = Field(0.0, ge=0.0)
    """GPUs of that process; 0 runs on the CPU."""
    threads: int = Field(1, ge=1)
    """Threads of that process for tensor work."""
    environment_workers: int = Field(0, ge=0, le=1000)
    """Additional processes that step a share of the environments each; 0 steps them in the acting process."""
    environment_cpus: float = Field(0.5, ge=0.0)
    """CPU cores per environment worker (for scheduling)."""


class MarlEvaluation(Section):
    """Episodes played without training, from the same seeds in every evaluation."""

    every: int = Field(10, ge=0)
    """Iterations between evaluations (and between printed lines); step 0 and the last iteration are always evaluated; 0 disables both."""
    episodes: int = Field(64, ge=1)
    """Episodes per evaluation."""
    sampled_episodes: int = Field(0, ge=0)
    """Episodes per evaluation with sampled actions; 0 uses `episodes`."""
    greedy: bool = True
    """Evaluate with the most likely action, or the mean of continuous ones (metrics `eval/...`)."""
    sampled: bool = True
    """Evaluate with sampled actions (metrics `eval_sampled/...`)."""
    probes: int = Field(2, ge=0)
    """Number of these episodes that are stored for reading and replay at every evaluation."""


class MarlCheckpoint(Checkpoint):
    """Checkpoints to resume, fork or export from."""

    checkpoint_fields: ClassVar[tuple[str, ...]] = ("resume_from",)

    best_of: str = "eval/return"
    """Metric whose highest value marks the best checkpoint."""
    resume_from: str = Field("", max_length=1000)
    """Checkpoint that the run starts from, with its iteration count: a folder, or runs/RUN/checkpoints/iteration-000100; empty: none."""

    @field_validator("resume_from")
    @classmethod
    def _is_no_pickle(cls, path: str) -> str:
        if path.endswith((".pt", ".pth", ".pkl", ".ckpt")):
            raise ValueError(
                "loading a pickle can run code, so pickles are refused; name a checkpoint folder of Troupe, such "
                "as runs/RUN/checkpoints/iteration-000100"
            )
        return path


class MarlConfig(ExperimentConfig):
    """The config of one experiment with small-network agents."""

    agents: ClassVar[AgentKind] = AgentKind.NETWORKS
    run: Run = Run()
    """Name, seed, length."""
    team: MarlTeam
    """Roles and their policies."""
    policies: dict[str, MarlPolicy] = Field(min_length=1, max_length=64)
    """Policies by name; a policy that no role uses is ignored."""
    environment: AnyMarlEnvironment = SimpleSpread()
    """The environment."""
    algorithm: AnyMarlAlgorithm = Mappo()
    """The algorithm: advantages and losses."""
    rollout: MarlRollout = MarlRollout()
    """Number of environments and steps per iteration."""
    resources: MarlResources = MarlResources()
    """Processes."""
    evaluation: MarlEvaluation = MarlEvaluation()
    """Episodes without training."""
    checkpoint: MarlCheckpoint = MarlCheckpoint()
    """Checkpoints on disk."""
    reporting: Reporting = Reporting()
    """Records of the run: replays, samples and logs."""
    health: NetworkHealth = NetworkHealth()
    """Rules that monitor the run, and their actions."""

    @property
    def networks(self) -> dict[str, Any]:
        """Network by used policy."""
        return {name: self.policies[name].network for name in self.used_policies}

    @property
    def separate_seeds(self) -> str:
        """The property for which runs with several seeds need a process each; empty if they can share one."""
        return reason_for_separate_runs(self)

    @property
    def fork_source(self) -> str:
        """The checkpoint that the config names as the run's start; empty: none."""
        return self.checkpoint.resume_from

    @property
    def batch_factors(self) -> dict[str, int]:
        """What an iteration's environment steps are a product of, by name."""
        return {"environment": self.rollout.environments, "step": self.rollout.steps}

    @property
    def episodes_per_iteration(self) -> int:
        """Maximum number of training episodes, if each has the maximum length."""
        steps = self.rollout.samples
        return math.ceil(steps / int(getattr(self.environment, "max_cycles", steps)))

    @property
    def training_slots(self) -> int:
        """Environments that training plays at the same time."""
        return self.rollout.environments

    @property
    def acting_gpus(self) -> float:
        """GPUs of the trainer."""
        return self.resources.gpus

    def evaluation_episodes(self, kind: str) -> int:
        """Episodes of an evaluation of this kind."""
        sampled = self.evaluation.sampled_episodes if kind == "eval_sampled" else 0
        return sampled or self.evaluation.episodes

    @property
    def role_order(self) -> tuple[str, ...]:
        """Roles in the environment's order, or sorted by name if it does not fix them, because a database may reorder tables."""
        known = [name for name in self.environment.roles if name in self.team.roles]
        return (*known, *sorted(name for name in self.team.roles if name not in known))

    @property
    def returned_role(self) -> str:
        """The role whose return counts as the run's return: the first trained role."""
        return next(name for name in self.role_order if self.team.roles[name].trained)

    @cross_field
    def _every_step_is_seen(self) -> Self:
        """Checks episode lengths known from the config; the trainer checks the environments."""
        steps, longest, fresh = self.rollout.steps, self.environment.longest, self.rollout.fresh
        if fresh == "always" and longest > steps:
            raise ValueError(f"rollout.fresh: {unreached_ends(steps, longest)}")
        if not self.environment.keeps_episodes and (fresh == "never" or longest > steps):
            raise ValueError(
                f"rollout.steps: episodes of {self.environment.type} cannot be stored in checkpoints, so every iteration plays whole "
                f'episodes. Set rollout.steps to at least environment.max_cycles = {longest}, and rollout.fresh = "auto"'
            )
        return self

    @cross_field
    def _worlds_on_a_device_are_together(self) -> Self:
        if getattr(self.environment, "backend", "") == "torch" and self.resources.environment_workers:
            raise ValueError(
                'environment.backend: worlds of "torch" are stepped in the trainer\'s process. Set '
                'resources.environment_workers = 0, or environment.backend = "native"'
            )
        return self

    @cross_field
    def _chunks_fit(self) -> Self:
        for name in self.used_policies:
            if self.policies[name].network.sequence_length > self.rollout.steps:
                raise ValueError(
                    f"policies.{name}.network.chunk_length: longer than rollout.steps = {self.rollout.steps}"
                )
        return self
