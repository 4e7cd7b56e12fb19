"""Collection of experience, and the processes that do it."""

from collections.abc import Iterator, Mapping
from math import ceil
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from training_core.config.arguments import addresses_in, module_started, programs_in
from training_core.config.base import Arguments, OptionalNumber, Section, cross_field
from training_core.config.effects import (
    Effects,
    Place,
    at_most,
    both,
    evaluates,
    iterations,
    needs,
    only_if,
    unless,
    where,
)
from training_core.config.rewards import MathReward, Reward
from training_core.errors import InvalidValue
from training_core.importing import IMPORT_PATH
from training_core.llm.environments.base import TRY_AGAIN


class TurnTree(Section):
    """At each agent's turn, K candidates from one state; one of them is continued."""

    type: Literal["turn_tree"] = "turn_tree"
    """Tree sampling, turn by turn (AT-GRPO)."""
    effects: ClassVar[Effects] = {
        "carry": only_if(
            lambda at: at.config.rollout.group_size > 1, "rollout.group_size = 1 has one candidate"
        )
    }
    orders: ClassVar[Effects] = {
        "horizon": at_most(
            "horizon",
            lambda at: int(at.config.max_turns),
            "environment.max_turns",
            "continuations are played to the end anyway; set 0",
        )
    }
    carry: Literal["best", "sampled"] = "best"
    """Which candidate is continued: best (highest reward, as in the paper) or sampled (a random one)."""
    value: Literal["immediate", "turn", "return"] = "immediate"
    """What candidates are compared by: immediate, their own rewards; or with the mean of what their roles earn in continuations by the
    current policies, to the end of the same turn of the team (turn) or of the episode (return).
    """
    continuations: int = Field(1, ge=1, le=256)
    """Continuations of each different answer of a group, M; only with value = "turn" or "return"."""
    horizon: int = Field(0, ge=0)
    """With value = "return": turns of the team after which continuations end, that of the answer included; 0: no limit."""

    @property
    def turns_ahead(self) -> int | None:
        """Turns of the team that continuations play, that of the answer included; None for whole episodes."""
        return 1 if self.value == "turn" else self.horizon or None

    @cross_field
    def _values_have_what_they_need(self) -> Self:
        if self.value == "immediate" and self.continuations != 1:
            raise InvalidValue(
                'continuations: value = "immediate" continues no candidates',
                remedy='leave it at 1, or set value = "turn"',
            )
        if self.value != "return" and self.horizon:
            raise InvalidValue(
                f'horizon: value = "{self.value}" has no limit of turns',
                remedy='leave it at 0, or set value = "return"',
            )
        if self.value != "immediate" and self.carry == "best":
            raise InvalidValue(
                f'carry: the highest of the noisy estimates of value = "{self.value}" is the luckiest answer, so later states would '
                "come from no policy",
                remedy='set carry = "sampled"',
            )
        return self


class Episodes(Section):
    """K independent episodes of each task, compared by each role's reward in the whole episode (GRPO)."""

    type: Literal["episodes"] = "episodes"
    """Whole episodes are the candidates: groups are (task, role)."""
    branch: Literal["none", "random"] = "none"
    """Where the K episodes of a task part: none, at their beginning; random, at a random step of one opening, which is not trained."""


class MultiTurn(Section):
    """K conversations of each task: a role's next turn is appended to its tokens so far (AReaL's multi-turn workflow)."""

    type: Literal["multi_turn"] = "multi_turn"
    """Whole episodes are the candidates, as in `episodes`; sampled tokens are never rendered again."""
    effects: ClassVar[Effects] = {
        "feedback": only_if(
            lambda at: getattr(at.config.environment, "max_turns", 2) != 1,
            "environment.max_turns = 1 has no second turn",
        )
    }
    feedback: str = TRY_AGAIN
    """Message to a role before its second and every later turn; empty uses the environment's observation."""


class CustomWorkflow(Section):
    """A custom workflow, or rollout function, by import path."""

    import_fields: ClassVar[tuple[str, ...]] = ("path",)
    type: Literal["custom"] = "custom"
    """A function (tasks, table) -> episodes, or a class whose instances are called the same way."""
    path: str = Field(pattern=IMPORT_PATH)
    """Import path package.module:name."""
    args: Arguments = {}
    """Additional keyword arguments of the function, or arguments that the class is constructed with."""


def _outlasts_an_episode(at: Place) -> str:
    patience, timeout = at.section.patience, at.section.timeout
    if not 0 < patience < timeout:
        return ""
    return (
        f"{patience:g} is below workflow.timeout = {timeout:g}: the run fails while its agents play long episodes and others wait; "
        "set it at least as high"
    )


class Agent(Section):
    """Custom agents play K episodes of each task: any program that uses OpenAI's chat API, through a gateway to the policies."""

    import_fields: ClassVar[tuple[str, ...]] = ("path",)
    type: Literal["agent"] = "agent"
    """Any agent framework, unchanged: an agent calls an OpenAI-compatible address and reports its episode's reward."""
    effects: ClassVar[Effects] = {
        "args": unless("path", ""),
        "concurrency": lambda at: "" if at.config.environment.player else unless("path", "")(at),
        "patience": both(
            where("path", ""),
            only_if(lambda at: not at.config.environment.player, "the environment plays its tasks itself"),
        ),
    }
    orders: ClassVar[Effects] = {
        "patience": _outlasts_an_episode,
        "failure_reward": at_most(
            "failure_reward",
            lambda at: float(at.section.success_at),
            "workflow.success_at",
            "an error pays at least as much as a success; set it lower",
        ),
    }
    path: str = Field("", pattern=f"^$|{IMPORT_PATH}")
    """package.module:Class with `async run(data, **kwargs)`, which returns a reward; empty waits for external agents over HTTP."""
    args: Arguments = {}
    """Arguments that the class is constructed with."""
    concurrency: int = Field(64, ge=1, le=10_000)
    """Episodes that agents of `path` play at the same time."""
    timeout: float = Field(600.0, gt=0.0)
    """Time limit of an agent for one episode in seconds; a slower episode fails."""
    patience: float = Field(600.0, ge=0.0)
    """Seconds to wait until an external agent accepts an episode; then the run fails. 0 waits indefinitely."""
    success_at: float = 1.0
    """An episode with at least this reward, over all roles and calls, counts as a success unless its agent reports otherwise."""
    failure_reward: OptionalNumber = None
    """Reward of an episode whose agent ends with an error after an answer; none: it fails. Time-outs and connections always fail."""
    strict: bool = False
    """Refuse requests with fields that the gateway does not apply, with status 400; false answers and names them in a header."""
    export_style: Literal["concat", "individual"] = "concat"
    """Unit of credit: concat joins a conversation's calls into one sequence with one advantage; individual: one advantage per call."""
    turn_discount: float = Field(1.0, ge=0.0, le=1.0)
    """With individual: a call's return is its reward plus this times the return of the role's next call."""
    port: int = Field(0, ge=0, le=65535)
    """Port of the gateway on 127.0.0.1; 0 uses a free port."""
    batch_window: float = Field(5.0, ge=0.0, le=10_000.0)
    """Milliseconds that a call waits for further calls, to be answered in one batch with them."""

    def modules(self) -> Iterator[tuple[str, str]]:
        """The module of a command `python -m MODULE` in the arguments."""
        if module := module_started(self.args):
            yield "args.command", module

    def addresses(self) -> Iterator[tuple[str, str, str]]:
        """Those in the arguments."""
        return addresses_in(self.args, "args")

    def programs(self) -> Iterator[tuple[str, str]]:
        """Commands and folders in the arguments; other texts are read by the agent's code."""
        permitted = {"command"} if module_started(self.args) else set()
        return programs_in({name: self.args[name] for name in self.args.keys() - permitted}, "args", ("*",))

    @cross_field
    def _only_calls_are_discounted(self) -> Self:
        _refuse_discount_of_sequences(self.export_style, self.turn_discount)
        return self


class RolloutWorkflow(Section):
    """Custom workflows with AReaL's interface play K episodes of each task: `arun_episode(engine, data)`, or an agent with queues."""

    import_fields: ClassVar[tuple[str, ...]] = ("path", "environment_path")
    type: Literal["rollout_workflow"] = "rollout_workflow"
    """A class that requests tokens from the policy and returns padded tensors, interactions, or None for a rejected episode."""
    effects: ClassVar[Effects] = {"environment_args": unless("environment_path", "")}
    path: str = Field(pattern=IMPORT_PATH)
    """package.module:Class with `arun_episode(engine, data)`, or with `collect_trajectory(prompt, env, obs_queue, act_queue)`."""
    args: Arguments = {}
    """Arguments that the class is constructed with, in addition to `gconfig`, `tokenizer` and `reward_fn` if it accepts them."""
    environment_path: str = Field("", pattern=f"^$|{IMPORT_PATH}")
    """package.module:Class with asynchronous `reset` and `step`, for agents with queues."""
    environment_args: Arguments = {}
    """Arguments that the environment class is constructed with."""
    reward: Reward = MathReward()
    """Reward function passed to a class that accepts `reward_fn`."""
    concurrency: int = Field(64, ge=1, le=10_000)
    """Episodes played at the same time."""
    timeout: float = Field(600.0, gt=0.0)
    """Time limit of an episode in seconds; a slower episode fails."""
    success_at: float = 1.0
    """An episode with at least this reward counts as a success."""
    export_style: Literal["concat", "individual"] = "concat"
    """Unit of credit of interactions and of agents with queues, as in workflow.type = "agent"; tensors are "concat"."""
    turn_discount: float = Field(1.0, ge=0.0, le=1.0)
    """With individual: a call's return is its reward plus this times the return of the role's next call."""

    @cross_field
    def _only_calls_are_discounted(self) -> Self:
        _refuse_discount_of_sequences(self.export_style, self.turn_discount)
        return self

    @cross_field
    def _episodes_are_scored_separately(self) -> Self:
        if field := self.reward.compares:
            raise InvalidValue(
                f"reward.{field}: episodes of a rollout workflow are scored separately",
                remedy="leave the field out, to score single answers",
            )
        return self


def _refuse_discount_of_sequences(export_style: str, turn_discount: float) -> None:
    """Raises ValueError if a discount would have no effect."""
    if export_style == "concat" and turn_discount != 1.0:
        raise InvalidValue(
            "turn_discount: only calls with individual returns are discounted",
            remedy='set export_style = "individual"',
        )


SERVICE_HEADER = "X-Troupe-Buffer"
"""Header of the answers of Troupe's rollout buffer, whose messages errors may quote."""


class RolloutBuffer(Section):
    """Rollouts of external programs are read from a rollout buffer service; each prompt's K records are a group."""

    import_fields: ClassVar[tuple[str, ...]] = ("loss_mask_path",)
    key_fields: ClassVar[Mapping[str, str]] = {"token_env": "url"}
    address_fields: ClassVar[tuple[str, ...]] = ("url", "engine_url")
    effects: ClassVar[Effects] = needs("epochs processes engine_url ahead", unless("generator", "")) | {
        "evaluation_file": both(unless("generator", ""), evaluates),
        "loss_mask_type": unless("loss_mask_path", ""),
    }
    type: Literal["rollout_buffer"] = "rollout_buffer"
    """Any external agents: they write records to a service, and this run learns from them."""
    url: str = Field("", max_length=400, pattern=r"^$|^https?://[^\s?#]+$")
    """Address of the service, such as http://127.0.0.1:8889; empty uses that of `troupe buffer serve` on this machine."""
    token_env: str = Field("TROUPE_BUFFER_TOKEN", pattern=r"^TROUPE_BUFFER_TOKEN[A-Z0-9_]{0,40}$")
    """Environment variable with the service's token; not needed for the service on this machine."""
    channel: str = Field("", pattern=r"^[A-Za-z0-9_.-]{0,60}$")
    """Queue of the service; runs that share a service use one each. Empty is the queue of slime's clients."""
    generator: str = Field("", max_length=100)
    """TASK_TYPE of the generator that the service runs; empty if another program writes the records."""
    input_file: str = Field("", max_length=400)
    """Prompts (JSONL) that the generator plays, below the service's data folder."""
    evaluation_file: str = Field("", max_length=400)
    """Held-out prompts that the generator plays for evaluations; empty plays the environment's held-out tasks in this run."""
    epochs: int = Field(1, ge=1)
    """Number of times that the generator plays the file."""
    processes: int = Field(10, ge=1, le=10_000)
    """Rollouts that the generator plays at the same time."""
    engine_url: str = Field("", max_length=400, pattern=r"^$|^policies$|^https?://[^\s?#]+$")
    """OpenAI-compatible server that the generator calls; "policies" is this run's server with its newest weights; empty for none."""
    ahead: float = Field(1.0, gt=0.0, le=1000.0)
    """Records that may wait at the service, in iterations; beyond it the generator waits, so that data does not become stale."""
    loss_mask: Literal["generic", "qwen", "qwen3", "qwen3_5", "distill_qwen", "custom"] = "generic"
    """How the tokens of a conversation that are trained on are selected; custom calls the function of loss_mask_path."""
    loss_mask_path: str = Field("", pattern=rf"^$|{IMPORT_PATH}")
    """For loss_mask = "custom": package.module:function of (messages, tokenizer, tools) that returns a MaskedTokens,
    or a class on slime's MultiTurnLossMaskGenerator.
    """
    loss_mask_type: str = Field("", max_length=60)
    """The `tokenizer_type` that this class is constructed with: the value of slime's flag --loss-mask-type."""
    reward: Literal["raw", "normalised"] = "raw"
    """Learn from rewards as written, or as normalised by the service within their group (then use mean_level = "none")."""
    max_staleness: int = Field(4, ge=0, le=1_000_000)
    """Maximum age of a record's tokens in publications of weights, if it reports their versions; older records are dropped and counted."""
    success_at: float = 1.0
    """A record whose raw reward is at least this counts as a success."""
    poll_interval: float = Field(5.0, gt=0.0, le=3600.0)
    """Seconds between polls while no record is available."""
    retry_interval: float = Field(3.0, gt=0.0, le=3600.0)
    """Seconds until the next attempt when the service is unreachable."""
    retry_limit: int = Field(-1, ge=-1)
    """Consecutive failed attempts after which the run fails; -1 waits indefinitely."""

    @cross_field
    def _files_have_a_generator(self) -> Self:
        if (self.loss_mask == "custom") != bool(self.loss_mask_path):
            raise InvalidValue(
                'loss_mask_path: is used with loss_mask = "custom" only',
                remedy='remove it, or set loss_mask = "custom"',
            )
        if not self.generator and (self.input_file or self.evaluation_file):
            raise ValueError("generator: name the generator that plays the file, or remove the file")
        if self.generator and not self.input_file:
            raise ValueError("input_file: name the prompts that the generator plays")
        return self


WHOLE_EPISODES = (Episodes, MultiTurn)
"""Workflows that play K whole episodes of each task at the environment."""
REPLAYED = ("turn_tree", "episodes", "multi_turn")
"""Workflows whose episodes consist of the environment's turns alone, so that their recorded answers replay them."""
Workflow = Annotated[
    TurnTree | Episodes | MultiTurn | CustomWorkflow | Agent | RolloutWorkflow | RolloutBuffer,
    Field(discriminator="type"),
]
"""One class per workflow, selected by `type`."""


def replay_refused(workflow: str) -> str:
    """Why episodes of a workflow, by its `type`, cannot be replayed from their recorded answers; empty if they can."""
    if workflow in REPLAYED:
        return ""
    return (
        f'episodes of "{workflow}" cannot be replayed, because programs outside of the environment hold a part of their state; '
        f"only those of {', '.join(REPLAYED)} can"
    )


WORKFLOW_CONFIGS: dict[str, type[Section]] = {
    "turn_tree": TurnTree,
    "episodes": Episodes,
    "multi_turn": MultiTurn,
    "custom": CustomWorkflow,
    "agent": Agent,
    "rollout_workflow": RolloutWorkflow,
    "rollout_buffer": RolloutBuffer,
}


_overlaps = only_if(
    lambda at: at.config.rollout.staleness,
    "only with rollout.staleness above 0: otherwise all tasks of an iteration are played before the update",
)


def _interrupts(at: Place) -> str:
    workflow = at.config.workflow
    served = isinstance(workflow, RolloutBuffer) and workflow.engine_url == "policies"
    return "" if served else _overlaps(at)


def _may_be_stale(at: Place) -> str:
    workflow = at.config.workflow
    if isinstance(workflow, RolloutWorkflow | CustomWorkflow):
        return ""
    if isinstance(workflow, RolloutBuffer):
        return "records older than workflow.max_staleness are always dropped"
    fresh = "data is never older than the policy with rollout.staleness = 0"
    return "" if at.config.rollout.staleness else fresh


class Rollout(Section):
    """Amount of data per iteration, and handling of stale data."""

    effects: ClassVar[Effects] = {
        "epoch_tasks": only_if(
            lambda at: at.config.checkpoint.every_epochs, "only with checkpoint.every_epochs above 0"
        ),
        "stale": _may_be_stale,
        "max_concurrent": _overlaps,
        "wave": _overlaps,
        "partial": _interrupts,
    }
    orders: ClassVar[Effects] = {
        "publish_every": at_most(
            "publish_every",
            iterations,
            "run.iterations",
            "episodes are played with the first weights to the end; set it lower",
        )
    }
    tasks: int = Field(48, ge=1)
    """Tasks played per iteration."""
    epoch_tasks: int = Field(0, ge=0)
    """Tasks in one pass over the data, such as the lines of a data set; 0: the data has no end."""
    group_size: int = Field(8, ge=1)
    """Candidates per group, K: answers of a turn or whole episodes of a task, as the workflow defines. A group of one has no advantage."""
    over_sampling: float = Field(1.0, ge=1.0, le=100.0)
    """Maximum tasks played per iteration, as a multiple of `tasks`: tasks with all rewards equal are replaced (DAPO); 1 disables."""
    stale: Literal["error", "drop"] = "error"
    """Handling of answers older than `staleness`: error raises an error with both versions, drop discards and counts them."""
    staleness: int = Field(0, ge=0)
    """Maximum age of data in publications of weights. 0 collects, then updates (synchronous); above 0 both run concurrently."""
    max_concurrent: int = Field(0, ge=0)
    """Tasks played at the same time during an update; 0 means as many as `tasks`."""
    wave: int = Field(0, ge=0)
    """Tasks that start together and advance in lockstep, so that each call to a policy is one batch; 0 means as many as `tasks`."""
    partial: bool = True
    """New weights interrupt unfinished answers, which continue with them; false finishes the answers first."""
    publish_every: int = Field(1, ge=1)
    """Updates between publications of weights to the engines; evaluations and checkpoints also publish."""

    @property
    def most_tasks(self) -> int:
        """Tasks that an iteration may play."""
        return ceil(self.tasks * self.over_sampling)

    @property
    def concurrency(self) -> int:
        """Tasks played at the same time."""
        return self.max_concurrent or self.tasks

    @property
    def wave_tasks(self) -> int:
        """Maximum number of tasks that start together."""
        return min(self.wave or self.tasks, self.concurrency)

    @property
    def waves(self) -> int:
        """Waves played at the same time."""
        return -(-self.concurrency // self.wave_tasks)


class Resources(Section):
    """Processes shared by the whole run."""

    environment_workers: int = Field(2, ge=1, le=10_000)
    """Processes that step environments."""
    environments_per_worker: int = Field(32, ge=1)
    """Environments that each of these processes hosts; workers x this must be enough for the tasks of an iteration."""
    environment_cpus: float = Field(0.1, ge=0.0)
    """CPU cores per environment worker (for scheduling)."""
    threads: int = Field(1, ge=1)
    """Threads per process for tensor work."""
