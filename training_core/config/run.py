"""The run config of language-model agents: one tree, strict, with cross-field checks whose messages name the remedy."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field

from training_core.algorithms.config import ActorCritic, AtGrpo
from training_core.algorithms.registry import Algorithm
from training_core.config.base import EnvironmentSection, cross_field, one_of
from training_core.config.evaluation import Checkpoint, Evaluation, Reporting
from training_core.config.experiment import AgentKind, ExperimentConfig, Run
from training_core.config.health import Health
from training_core.config.models import Policy
from training_core.config.rewards import RewardSection
from training_core.config.rollout import (
    WHOLE_EPISODES,
    Agent,
    Episodes,
    Resources,
    Rollout,
    RolloutBuffer,
    TurnTree,
    Workflow,
    replay_refused,
)
from training_core.config.team import Team
from training_core.errors import InvalidValue
from training_core.llm.environments.arithmetic import Arithmetic
from training_core.llm.environments.external import External
from training_core.llm.environments.plan_path.game import PlanPath, PlanPathGrid
from training_core.llm.environments.registry import ENVIRONMENTS

ENVIRONMENT_CONFIGS: dict[str, type[EnvironmentSection]] = {
    tag: kind.config for tag, kind in ENVIRONMENTS.items()
}
"""type -> config class."""

if TYPE_CHECKING:
    Environment = EnvironmentSection
else:
    Environment = one_of(ENVIRONMENT_CONFIGS)


class RunConfig(ExperimentConfig):
    """The config of one experiment with language-model agents."""

    agents: ClassVar[AgentKind] = AgentKind.LANGUAGE_MODELS
    run: Run = Run()
    """Name, seed, length."""
    team: Team
    """Roles and their policies."""
    policies: dict[str, Policy] = Field(min_length=1, max_length=64)
    """Policies by name; a policy that no role uses is ignored."""
    environment: Environment = PlanPath()
    """The environment."""
    workflow: Workflow = TurnTree()
    """The workflow of an episode."""
    algorithm: Algorithm = AtGrpo()
    """The algorithm: advantages and losses."""
    rollout: Rollout = Rollout()
    """Amount of data per iteration, and its age."""
    resources: Resources = Resources()
    """Shared processes."""
    evaluation: Evaluation = Evaluation()
    """Held-out tasks."""
    checkpoint: Checkpoint = Checkpoint()
    """Checkpoints on disk."""
    reporting: Reporting = Reporting()
    """Records of the run: transcripts, samples and logs."""
    health: Health = Health()
    """Rules that monitor the run, and their actions."""

    @cross_field
    def _groups_can_compare(self) -> Self:
        algorithm = self.algorithm
        if self.rollout.group_size > 1:
            return self
        if algorithm.leave_one_out and algorithm.mean_level != "group":
            raise ValueError("algorithm.leave_one_out: needs rollout.group_size of 2 or more")
        if "group" in (algorithm.mean_level, algorithm.std_level):
            raise InvalidValue("rollout.group_size: a group of one has no advantage", remedy="use 2 or more")
        if algorithm.drop_zero_variance:
            raise InvalidValue(
                "algorithm.drop_zero_variance: a group of one has no variance, so every group would be excluded",
                remedy="set false, or rollout.group_size = 2 or more",
            )
        return self

    @cross_field
    def _answers_can_be_compared(self) -> Self:
        reward = getattr(self.environment, "reward", None)
        field = reward.compares if isinstance(reward, RewardSection) else ""
        if field and (isinstance(self.workflow, WHOLE_EPISODES) or self.rollout.group_size == 1):
            raise InvalidValue(
                f"environment.reward.{field}: compares the answers to one state, which this run does not have",
                remedy='set workflow.type = "turn_tree" and rollout.group_size = 2 or more, or score single answers',
            )
        return self

    @cross_field
    def _an_evaluator_can_play(self) -> Self:
        if not self.evaluates_beside:
            return self
        workflow, gpus, reason = self.workflow, self.evaluation.gpus, ""
        if isinstance(workflow, RolloutBuffer) or (isinstance(workflow, Agent) and not workflow.path):
            reason = "external programs play with the workers of the training"
        elif any(self.policies[name].engine.weights == "remote" for name in self.used_policies):
            reason = "external servers have the weights of the training only"
        if reason:
            raise InvalidValue(f'evaluation.mode: "beside" is not possible: {reason}', remedy='set "inline"')
        if gpus > 1 and [gpus] != [self.policies[name].engine.gpus for name in self.used_policies]:
            raise InvalidValue(
                f"evaluation.gpus: an evaluator shares one GPU among its policies, but {gpus:g} are requested",
                remedy="set it to 1, or to engine.tensor_parallel of the only policy",
            )
        return self

    @cross_field
    def _critics_have_a_learner(self) -> Self:
        for name in self.trained_policies:
            learner = self.policies[name].learner
            if isinstance(self.algorithm, ActorCritic) and not learner.has_critic:
                raise InvalidValue(
                    f'policies.{name}.learner.type: "{learner.type}" has no value head',
                    remedy='use "torch", or an algorithm other than "ppo"',
                )
        return self

    @cross_field
    def _tasks_can_be_replaced(self) -> Self:
        if self.rollout.over_sampling > 1 and (
            self.rollout.staleness > 0 or isinstance(self.workflow, RolloutBuffer)
        ):
            raise InvalidValue(
                "rollout.over_sampling: tasks with equal rewards are replaced only if the loop waits for the replacements",
                remedy='use 1 with rollout.staleness above 0 and with workflow.type = "rollout_buffer"',
            )
        if self.rollout.over_sampling > 1 and not self.algorithm.leaves_groups_out:
            raise InvalidValue(
                "rollout.over_sampling: no group is excluded from the loss, so no task is replaced",
                remedy="set algorithm.drop_zero_variance = true, a group_filter by its bounds, or over_sampling = 1",
            )
        return self

    @cross_field
    def _a_role_decides(self) -> Self:
        if not isinstance(self.environment, Arithmetic):
            return self
        proposer, roles = self.environment.proposer, ", ".join(self.team.roles)
        if proposer and (proposer == "tool" or proposer not in self.team.roles):
            raise ValueError(
                f"environment.proposer: must be a role of the team other than tool, not {proposer!r}; roles are {roles}"
            )
        if set(self.team.roles) <= {"tool", proposer}:
            raise InvalidValue(
                f"team.roles: the answers of {roles} are only shown to other roles of arithmetic",
                remedy="add a role that decides, such as [team.roles.checker]",
            )
        return self

    @cross_field
    def _tiny_models_read_words(self) -> Self:
        wording = (
            self.environment.wording if isinstance(self.environment, PlanPathGrid | Arithmetic) else "words"
        )
        tiny = [name for name in self.used_policies if self.policies[name].model == "tiny"]
        if wording != "words" and tiny:
            raise InvalidValue(
                f'policies.{tiny[0]}.model: "tiny" knows single words, not environment.wording = "{wording}"',
                remedy='name a pretrained model such as "smollm2", or set the wording to "words"',
            )
        return self

    @cross_field
    def _there_is_something_to_continue(self) -> Self:
        if (
            isinstance(self.workflow, TurnTree)
            and self.workflow.value == "turn"
            and len(self.team.order) == 1
        ):
            raise InvalidValue(
                'workflow.value: "turn" continues to the end of the team\'s turn, but the team has one role that speaks once',
                remedy='set "immediate", or "return"',
            )
        return self

    @cross_field
    def _siblings_can_part(self) -> Self:
        if (
            isinstance(self.workflow, Episodes)
            and self.workflow.branch != "none"
            and self.rollout.group_size == 1
        ):
            raise InvalidValue(
                'workflow.branch: "random" needs several episodes of each task, but rollout.group_size is 1',
                remedy='set "none", or rollout.group_size = 2 or more',
            )
        return self

    @cross_field
    def _environments_fit(self) -> Self:
        room = self.resources.environment_workers * self.resources.environments_per_worker
        if room < self.training_slots:
            slots = self.slots_per_task
            unit = "episodes" if isinstance(self.workflow, WHOLE_EPISODES) else "states"
            factor = f" x {slots} {unit}" if slots > 1 else ""
            more = self.rollout.concurrency > self.rollout.tasks
            count = (
                f"max_concurrent = {self.rollout.concurrency}" if more else f"tasks = {self.rollout.tasks}"
            )
            raise InvalidValue(
                f"resources.environments_per_worker: {room} environments cannot hold rollout.{count}{factor}",
                remedy=f"raise it to {-(-self.training_slots // self.resources.environment_workers)}",
            )
        return self

    @cross_field
    def _generation_can_go_on(self) -> Self:
        """To generate while weights change, the engines need a separate copy of them."""
        shared = [
            name for name in self.trained_policies if self.policies[name].devices.placement == "colocated"
        ]
        asked = "staleness" if self.rollout.staleness else "publish_every"
        if shared and (self.rollout.staleness > 0 or self.rollout.publish_every > 1):
            raise InvalidValue(
                f'policies.{shared[0]}.devices.placement: "colocated" generates and updates in turn, so no data can be '
                "generated with older weights",
                remedy=f'set "apart", or leave rollout.{asked} at its default',
            )
        return self

    @cross_field
    def _tasks_are_played_somewhere(self) -> Self:
        outside = self.workflow if isinstance(self.workflow, RolloutBuffer) else None
        if isinstance(self.environment, External):
            if outside is None:
                raise InvalidValue(
                    'environment.type: "external" is for workflow.type = "rollout_buffer"',
                    remedy="choose another environment or workflow",
                )
            if self.evaluation.every and not outside.evaluation_file:
                raise InvalidValue(
                    "evaluation.every: this environment cannot be played",
                    remedy="set workflow.evaluation_file, or evaluation.every = 0",
                )
        alone = isinstance(self.workflow, Agent) and not self.workflow.path
        if self.environment.player and not alone:
            raise InvalidValue(
                f'environment.type: "{self.environment.type}" plays its tasks itself, through the gateway',
                remedy='set workflow.type = "agent", without a path',
            )
        if outside is not None and self.rollout.staleness:
            raise InvalidValue(
                "rollout.staleness: rollouts of external programs continue during updates in any case",
                remedy="set it to 0",
            )
        return self

    @cross_field
    def _minibatches_have_groups(self) -> Self:
        for name in self.used_policies:
            if self.policies[name].learner.minibatches > self.rollout.tasks:
                raise ValueError(
                    f"policies.{name}.learner.minibatches: more minibatches than rollout.tasks = {self.rollout.tasks}"
                )
        return self

    @cross_field
    def _epochs_have_an_end(self) -> Self:
        if self.checkpoint.every_epochs and not self.rollout.epoch_tasks:
            raise InvalidValue(
                "checkpoint.every_epochs: the length of an epoch is unknown",
                remedy="set rollout.epoch_tasks to its number of tasks",
            )
        return self

    @cross_field
    def _probes_are_episodes(self) -> Self:
        if self.evaluation.probes > self.evaluation.episodes:
            raise ValueError(f"evaluation.probes: at most evaluation.episodes = {self.evaluation.episodes}")
        return self

    @cross_field
    def _measured_episodes_can_be_replayed(self) -> Self:
        refusal = replay_refused(self.workflow.type)
        if self.evaluation.worth and refusal:
            raise InvalidValue(f"evaluation.worth: {refusal}", remedy="set it to 0")
        if self.evaluation.worth > self.evaluation.episodes:
            raise ValueError(f"evaluation.worth: at most evaluation.episodes = {self.evaluation.episodes}")
        return self

    @property
    def models(self) -> dict[str, str]:
        """Base model by used policy."""
        return {name: self.policies[name].model for name in self.used_policies}

    @property
    def max_turns(self) -> int:
        """Maximum number of the team's turns in an episode; environments without turns have one."""
        return int(getattr(self.environment, "max_turns", 1))

    @property
    def batch_factors(self) -> dict[str, int]:
        """What an iteration's answers are a product of, by name."""
        tasks, group = self.rollout.tasks, self.rollout.group_size
        return {"task": tasks, "candidate": group, "turn": self.max_turns, "role": len(self.team.order)}

    @property
    def episodes_per_iteration(self) -> int:
        """Maximum number of training episodes: one path through each task's tree, or one per member of a task's group."""
        return self.rollout.tasks * (1 if isinstance(self.workflow, TurnTree) else self.rollout.group_size)

    @property
    def tokens_per_iteration(self) -> int:
        """Maximum number of sampled tokens."""
        longest = {name: self.team.roles[name].sampling.max_tokens for name in self.team.roles}
        compared = self.max_turns * sum(longest[name] for name in self.team.order)
        continued = sum(count * longest[name] for name, count in self.continued_answers.items())
        return self.rollout.tasks * self.rollout.group_size * compared + continued

    @property
    def continued_answers(self) -> dict[str, int]:
        """Maximum number of answers of an iteration's continuations, by role; empty without continuations.

        In a turn of the team the answers of the roles before are continued by a role, and in the turns ahead all of them.
        """
        workflow, turns = self.workflow, self.max_turns
        if not isinstance(workflow, TurnTree) or workflow.value == "immediate":
            return {}
        ahead = sum(min(turns - turn, workflow.turns_ahead or turns) - 1 for turn in range(turns))
        copies = self.rollout.tasks * self.rollout.group_size * workflow.continuations
        answers = dict.fromkeys(self.team.order, 0)
        for before, name in enumerate(self.team.order):
            answers[name] += copies * (turns * before + len(self.team.order) * ahead)
        return answers

    @property
    def acting_gpus(self) -> float:
        """GPUs of the largest rollout worker."""
        return max(policy.devices.rollout_gpus for policy in self.policies.values())

    @property
    def waits_for_external(self) -> bool:
        """Whether programs outside of the run play its tasks: external agents, or writers of a rollout buffer."""
        workflow = self.workflow
        if isinstance(workflow, Agent):
            return not (workflow.path or self.environment.player)
        return isinstance(workflow, RolloutBuffer)

    @property
    def overlaps(self) -> bool:
        """Whether collection and updates overlap; False if no data may be older than the policy."""
        return self.rollout.staleness > 0

    @property
    def oldest_data(self) -> int:
        """Maximum age of training data in publications of weights."""
        if isinstance(self.workflow, RolloutBuffer):
            return self.workflow.max_staleness
        return self.rollout.staleness

    @property
    def stale_data(self) -> Literal["error", "drop"]:
        """How older data is handled. Data of external programs is always dropped and counted, because this run did not produce it."""
        return "drop" if isinstance(self.workflow, RolloutBuffer) else self.rollout.stale

    @property
    def publish_every(self) -> int:
        """Iterations between publications of weights."""
        return self.rollout.publish_every

    def epochs_after(self, iteration: int) -> int:
        """Passes over the data after `iteration` iterations; 0 if no checkpoint depends on them."""
        tasks = self.rollout.epoch_tasks * self.checkpoint.every_epochs
        return iteration * self.rollout.tasks // tasks if tasks else 0

    @property
    def training_slots(self) -> int:
        """Environments that training plays at the same time."""
        if isinstance(self.workflow, RolloutBuffer):
            return 0
        return max(self.rollout.tasks, self.rollout.concurrency) * self.slots_per_task

    @property
    def slots_per_task(self) -> int:
        """Environments that a training task takes: one for its tree or for each episode, and one for each continuation of an answer."""
        if isinstance(self.workflow, WHOLE_EPISODES):
            return self.rollout.group_size
        if isinstance(self.workflow, TurnTree) and self.workflow.value != "immediate":
            return 1 + self.rollout.group_size * self.workflow.continuations
        return 1

    def learning_policies(self, iteration: int) -> tuple[str, ...]:
        """Policies that are updated in an iteration (from 1): all trained ones, or one of them with team.alternate."""
        trained, period = self.trained_policies, self.team.alternate
        return (trained[(iteration - 1) // period % len(trained)],) if period else trained


def is_shaped(config: Mapping[str, Any]) -> bool:
    """Whether the environment of a config tree rewards more than its goal, so that a return can be high without success."""
    environment = config.get("environment", {})
    section = ENVIRONMENT_CONFIGS.get(environment.get("type", ""))
    return section is not None and any(
        environment.get(field) for field in (*section.local_reward_fields, "shaping")
    )
