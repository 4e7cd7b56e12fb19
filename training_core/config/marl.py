"""The run config of small-network agents: one tree, strict, with cross-field checks whose messages name the remedy."""

import math
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, field_validator

from training_core.config.base import Section, cross_field
from training_core.config.effects import Effects, at_most, both, trained, unless, used, where
from training_core.config.evaluation import EVALUATION_EFFECTS, Checkpoint, Reporting
from training_core.config.experiment import AgentKind, ExperimentConfig, Run
from training_core.config.health import NetworkHealth
from training_core.config.team import NAME_PATTERN
from training_core.errors import Advice, InvalidValue
from training_core.marl.algorithms.config import CustomPpo, Mappo
from training_core.marl.algorithms.registry import AnyMarlAlgorithm
from training_core.marl.environments.config import SimpleSpread
from training_core.marl.environments.registry import AnyMarlEnvironment
from training_core.marl.networks.config import Mlp
from training_core.marl.networks.registry import AnyNetwork

ACTIVATIONS = ("tanh", "relu")
"""Activations whose derivatives follow from their values, so that gradients are analytic."""


class MarlLearner(Section):
    """Settings of a small network's learner."""

    actor_learning_rate: float = Field(3e-4, gt=0.0)
    """Peak learning rate of the actor's Adam."""
    critic_learning_rate: float = Field(3e-4, gt=0.0)
    """Peak learning rate of the critic's Adam."""
    weight_decay: float = Field(0.0, ge=0.0)
    """Decoupled weight decay of actor and critic; 0 disables."""
    schedule: Literal["constant", "linear"] = "constant"
    """Learning rates are constant, or decay linearly to 0 over the run's iterations."""
    max_grad_norm: float = Field(0.5, ge=0.0)
    """Gradients of actor and critic are each scaled down to this L2 norm; 0 disables."""
    epochs: int = Field(4, ge=1)
    """Passes over an iteration's samples."""
    minibatch_size: int = Field(256, ge=1)
    """Samples (one step of one agent) per optimizer step."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """bf16: matrix products of the update in bf16 by autocast, weights in fp32. Curves are reproducible from the seed in fp32 only."""
    compile: bool = False
    """Compile the update with torch.compile; the first iteration takes longer."""


class MarlPolicy(Section):
    """The networks of one or more roles: an actor and a critic."""

    effects: ClassVar[Effects] = {"network": used, "learner": trained}
    network: AnyNetwork = Mlp()
    """Architecture of the actor and of the critic."""
    learner: MarlLearner = MarlLearner()
    """Learner settings of actor and critic."""


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


def unreached_ends(steps: int, longest: int) -> Advice:
    """The message that refuses new episodes in every iteration."""
    return Advice(
        f"with new episodes in every iteration, nothing after step {steps} of an episode's {longest} is used for training.",
        f'Set rollout.fresh = "auto" to continue unfinished episodes, or rollout.steps to at least {longest}',
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
    effects: ClassVar[Effects] = {"environment_cpus": unless("environment_workers", 0)}
    environment_workers: int = Field(0, ge=0, le=1000)
    """Additional processes that step a share of the environments each; 0 steps them in the acting process."""
    environment_cpus: float = Field(0.5, ge=0.0)
    """CPU cores per environment worker (for scheduling)."""


class MarlEvaluation(Section):
    """Episodes played without training, from the same seeds in every evaluation."""

    effects: ClassVar[Effects] = EVALUATION_EFFECTS | {
        "sampled_episodes": both(unless("every", 0), where("sampled", True))
    }
    orders: ClassVar[Effects] = {
        "probes": at_most(
            "probes", lambda at: int(at.section.episodes), "evaluation.episodes", "no more are stored"
        )
    }
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
    mode: Literal["inline", "beside"] = "inline"
    """inline: training waits for an evaluation; beside: an evaluator of its own plays it during the next iterations (on Ray)."""
    cpus: float = Field(0.5, ge=0.0)
    """CPU cores of the evaluator (for scheduling)."""
    gpus: float = Field(0.0, ge=0.0, le=1.0)
    """GPUs of the evaluator; 0 runs on the CPU."""


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
            raise InvalidValue(
                "loading a pickle can run code, so pickles are refused",
                remedy="name a checkpoint folder of Troupe, such as runs/RUN/checkpoints/iteration-000100",
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
            raise InvalidValue(unreached_ends(steps, longest).after("rollout.fresh: "))
        if not self.environment.keeps_episodes and (fresh == "never" or longest > steps):
            raise InvalidValue(
                f"rollout.steps: episodes of {self.environment.type} cannot be stored in checkpoints, so every iteration plays whole "
                "episodes.",
                remedy=f'Set rollout.steps to at least environment.max_cycles = {longest}, and rollout.fresh = "auto"',
            )
        return self

    @cross_field
    def _worlds_on_a_device_are_together(self) -> Self:
        if getattr(self.environment, "backend", "") == "torch" and self.resources.environment_workers:
            raise InvalidValue(
                'environment.backend: worlds of "torch" are stepped in the trainer\'s process.',
                remedy='Set resources.environment_workers = 0, or environment.backend = "native"',
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


def reason_for_separate_runs(config: MarlConfig) -> str:
    """The property of a config for which its seeds are not trained in one process; empty if they can be."""
    networks = [config.policies[name].network for name in config.used_policies]
    learners = [config.policies[name].learner for name in config.used_policies]
    resources = config.resources
    reasons = {
        "GPUs": bool(resources.gpus),
        "evaluations during training": config.evaluates_beside,
        "environments in processes of their own": resources.environment_workers > 0,
        "a custom algorithm": isinstance(config.algorithm, CustomPpo),
        "networks other than mlp": any(network.type != "mlp" for network in networks),
        "separate weights of agents": any(not network.share_parameters for network in networks),
        f"activations other than {' and '.join(ACTIVATIONS)}": any(
            network.activation not in ACTIVATIONS for network in networks
        ),
        "precision other than fp32": any(learner.precision != "fp32" for learner in learners),
        "compiled updates": any(learner.compile for learner in learners),
        "continuous actions": bool(getattr(config.environment, "continuous_actions", False)),
        "environments other than the native multi-particle ones": not _has_native_worlds(config),
        "episodes that continue over rollouts": _continues_episodes(config),
    }
    return next((reason for reason, applies in reasons.items() if applies), "")


def _has_native_worlds(config: MarlConfig) -> bool:
    """Native multi-particle environments without wrappers."""
    section: Any = config.environment
    return getattr(section, "backend", "") == "native" and section.supersuit == type(section.supersuit)()


def _continues_episodes(config: MarlConfig) -> bool:
    longest = config.environment.longest
    return config.rollout.fresh == "never" or not 0 < longest <= config.rollout.steps
