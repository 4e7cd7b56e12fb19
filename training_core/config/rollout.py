"""Collection of experience, and the processes it runs in."""

from collections.abc import Mapping
from math import ceil
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from training_core.config.base import Arguments, Section
from training_core.config.rewards import MathReward, Reward
from training_core.importing import IMPORT_PATH

TRY_AGAIN = "Your answer is not correct. Please try to answer it again."
"""What a role is told after a wrong answer, as in AReaL's multi-turn workflow."""


class TurnTree(Section):
    """At each agent's turn, K candidates from one state; one of them is carried on."""

    type: Literal["turn_tree"] = "turn_tree"
    """Tree sampling, turn by turn (AT-GRPO)."""
    carry: Literal["best", "sampled"] = "best"
    """Which candidate goes on: best (the paper's: highest reward) or sampled (one at random)."""


class Episodes(Section):
    """K independent episodes of each task, compared by what each role earned in the whole episode (GRPO)."""

    type: Literal["episodes"] = "episodes"
    """Whole episodes are the candidates: groups are (task, role)."""


class MultiTurn(Section):
    """K conversations of each task: a role's next turn is put behind its tokens so far (AReaL's multi-turn workflow)."""

    type: Literal["multi_turn"] = "multi_turn"
    """Whole episodes are the candidates, as in `episodes`; what was sampled is never rendered again."""
    feedback: str = TRY_AGAIN
    """What a role is told before its second and every later turn; empty tells what the environment shows it then."""


class CustomWorkflow(Section):
    """A workflow, or rollout function, of your own, by import path."""

    import_fields: ClassVar[tuple[str, ...]] = ("path",)
    type: Literal["custom"] = "custom"
    """A function (tasks, table) -> episodes, or a class whose objects can be called so."""
    path: str = Field(pattern=IMPORT_PATH)
    """Where it is: package.module:name."""
    args: Arguments = {}
    """Further keyword arguments of the function, or those that the class is made with."""


class Agent(Section):
    """Agents of one's own play K episodes of each task: any program that speaks OpenAI's chat API, through a gateway to the policies."""

    import_fields: ClassVar[tuple[str, ...]] = ("path",)
    type: Literal["agent"] = "agent"
    """Any agent framework, unchanged: an agent calls an OpenAI-compatible address and says what its episode earned."""
    path: str = Field("", pattern=f"^$|{IMPORT_PATH}")
    """package.module:Class with `async run(data, **kwargs)`, which returns a reward; empty waits for agents outside, over HTTP."""
    args: Arguments = {}
    """Arguments that the class is made with."""
    concurrency: int = Field(64, ge=1, le=10_000)
    """Episodes that agents of `path` play at a time."""
    timeout: float = Field(600.0, gt=0.0)
    """Seconds that an agent may take for an episode; a slower one has failed."""
    patience: float = Field(600.0, ge=0.0)
    """Seconds to wait for an agent outside to take an episode before the run fails; 0 waits for ever."""
    success_at: float = 1.0
    """An episode that earned at least this, over all roles and calls, counts as a success unless its agent says otherwise."""
    export_style: Literal["concat", "individual"] = "concat"
    """Unit of credit: concat joins a conversation's calls to one sequence with one advantage, individual gives each call its own."""
    turn_discount: float = Field(1.0, ge=0.0, le=1.0)
    """With individual: a call's return is its own reward plus this times the return of the role's next call."""
    port: int = Field(0, ge=0, le=65535)
    """Port of the gateway on 127.0.0.1; 0 takes a free one."""
    batch_window: float = Field(5.0, ge=0.0, le=10_000.0)
    """Milliseconds that a call waits for others, to be answered in one batch with them."""

    @model_validator(mode="after")
    def _only_calls_are_discounted(self) -> Self:
        _refuse_discount_of_sequences(self.export_style, self.turn_discount)
        return self


class RolloutWorkflow(Section):
    """Workflows of one's own in AReaL's manner play K episodes of each task: `arun_episode(engine, data)`, or an agent with queues."""

    import_fields: ClassVar[tuple[str, ...]] = ("path", "environment_path")
    type: Literal["rollout_workflow"] = "rollout_workflow"
    """A class that asks the policy for tokens and returns padded tensors, interactions, or nothing for a rejected episode."""
    path: str = Field(pattern=IMPORT_PATH)
    """package.module:Class with `arun_episode(engine, data)`, or with `collect_trajectory(prompt, env, obs_queue, act_queue)`."""
    args: Arguments = {}
    """Arguments that the class is made with, beside `gconfig`, `tokenizer` and `reward_fn` where it takes them."""
    environment_path: str = Field("", pattern=f"^$|{IMPORT_PATH}")
    """package.module:Class with asynchronous `reset` and `step`, for agents with queues."""
    environment_args: Arguments = {}
    """Arguments that it is made with."""
    reward: Reward = MathReward()
    """What a class that takes `reward_fn` is given."""
    concurrency: int = Field(64, ge=1, le=10_000)
    """Episodes in play at a time."""
    timeout: float = Field(600.0, gt=0.0)
    """Seconds that an episode may take; a slower one has failed."""
    success_at: float = 1.0
    """An episode that earned at least this counts as a success."""
    export_style: Literal["concat", "individual"] = "concat"
    """Unit of credit of interactions and of agents with queues, as in workflow.type = "agent"; tensors are "concat"."""
    turn_discount: float = Field(1.0, ge=0.0, le=1.0)
    """With individual: a call's return is its own reward plus this times the return of the role's next call."""

    @model_validator(mode="after")
    def _only_calls_are_discounted(self) -> Self:
        _refuse_discount_of_sequences(self.export_style, self.turn_discount)
        return self


def _refuse_discount_of_sequences(export_style: str, turn_discount: float) -> None:
    """Raises ValueError where a discount would change nothing."""
    if export_style == "concat" and turn_discount != 1.0:
        raise ValueError(
            'turn_discount: only calls with returns of their own are discounted; set export_style = "individual"'
        )


class RolloutBuffer(Section):
    """Rollouts made outside, by any program, are taken from a rollout buffer service; each prompt's K records are a group."""

    import_fields: ClassVar[tuple[str, ...]] = ("loss_mask_path",)
    key_fields: ClassVar[Mapping[str, str]] = {"token_env": "url"}
    type: Literal["rollout_buffer"] = "rollout_buffer"
    """Any agents, anywhere: they write records to a service, and this run learns from them."""
    url: str = Field("", max_length=400)
    """Address of the service, e.g. http://127.0.0.1:8889; empty takes the one that `troupe buffer` serves on this machine."""
    token_env: str = Field("TROUPE_BUFFER_TOKEN", pattern=r"^TROUPE_BUFFER_TOKEN[A-Z0-9_]{0,40}$")
    """Environment variable with the service's token; not needed for the service of this machine."""
    channel: str = Field("", pattern=r"^[A-Za-z0-9_.-]{0,60}$")
    """Queue of the service; runs that share a service have one each. Empty is the one that slime's clients use."""
    generator: str = Field("", max_length=100)
    """TASK_TYPE of the generator that the service runs; empty when somebody else writes the records."""
    input_file: str = Field("", max_length=400)
    """Prompts (JSONL) that the generator plays, below the service's data folder."""
    evaluation_file: str = Field("", max_length=400)
    """Held-out prompts that the generator plays for evaluations; empty plays the environment's held-out tasks here."""
    epochs: int = Field(1, ge=1)
    """Times that the generator plays the file."""
    processes: int = Field(10, ge=1, le=10_000)
    """Rollouts that the generator plays at a time."""
    engine_url: str = Field("", max_length=400)
    """OpenAI-compatible server that the generator asks; "policies" is this run's own, at its newest weights; empty for none."""
    ahead: float = Field(1.0, gt=0.0, le=1000.0)
    """Iterations' worth of records that may wait at the service; beyond it the generator waits, so that data do not grow old."""
    loss_mask: Literal["generic", "qwen", "qwen3", "qwen3_5", "distill_qwen", "custom"] = "generic"
    """How a conversation's tokens that are trained on are told from the others; custom asks the function of loss_mask_path."""
    loss_mask_path: str = Field("", pattern=rf"^$|{IMPORT_PATH}")
    """For loss_mask = "custom": package.module:function of (messages, tokenizer, tools) that answers with a MaskedTokens, or a class on
    slime's MultiTurnLossMaskGenerator."""
    loss_mask_type: str = Field("", max_length=60)
    """The `tokenizer_type` that such a class is made with: what slime's flag --loss-mask-type says."""
    reward: Literal["raw", "normalised"] = "raw"
    """Learn from rewards as they were written, or as the service normalised them in their group (then use mean_level = "none")."""
    max_staleness: int = Field(4, ge=0, le=1_000_000)
    """Publications of weights that a record's tokens may be old, where it tells their versions; older ones are left out and counted."""
    success_at: float = 1.0
    """A record whose raw reward is at least this counts as a success."""
    poll_interval: float = Field(5.0, gt=0.0, le=3600.0)
    """Seconds between looks while nothing is there."""
    retry_interval: float = Field(3.0, gt=0.0, le=3600.0)
    """Seconds until the next try when the service is away."""
    retry_limit: int = Field(-1, ge=-1)
    """Vain tries in a row after which the run fails; -1 waits for ever."""

    @model_validator(mode="after")
    def _files_have_a_generator(self) -> Self:
        if (self.loss_mask == "custom") != bool(self.loss_mask_path):
            raise ValueError('loss_mask_path: goes with loss_mask = "custom", and with no other')
        if not self.generator and (self.input_file or self.evaluation_file):
            raise ValueError("generator: name the generator that plays the file, or leave the file out")
        if self.generator and not self.input_file:
            raise ValueError("input_file: name the prompts that the generator plays")
        return self


WHOLE_EPISODES = (Episodes, MultiTurn)
"""Workflows that play K whole episodes of each task at the environment."""
Workflow = Annotated[
    TurnTree | Episodes | MultiTurn | CustomWorkflow | Agent | RolloutWorkflow | RolloutBuffer,
    Field(discriminator="type"),
]
"""One class per workflow, told apart by `type`."""

WORKFLOW_CONFIGS: dict[str, type[Section]] = {
    "turn_tree": TurnTree,
    "episodes": Episodes,
    "multi_turn": MultiTurn,
    "custom": CustomWorkflow,
    "agent": Agent,
    "rollout_workflow": RolloutWorkflow,
    "rollout_buffer": RolloutBuffer,
}


class Rollout(Section):
    """How much is collected per iteration, and what is done with stale data."""

    tasks: int = Field(48, ge=1)
    """Tasks played per iteration."""
    epoch_tasks: int = Field(0, ge=0)
    """Tasks in one pass over the data, such as the lines of a data set; 0 says that there is no end to them."""
    group_size: int = Field(8, ge=1)
    """Candidates per group, K: answers of a turn, or whole episodes of a task, as the workflow has it. A group of one has no advantage."""
    over_sampling: float = Field(1.0, ge=1.0, le=100.0)
    """Most tasks played per iteration, times `tasks`: those whose rewards are all equal make room for others (DAPO); 1 disables."""
    stale: Literal["error", "drop"] = "error"
    """Answers older than `staleness` allows: error refuses them by name of both versions, drop leaves them out and counts them."""
    staleness: int = Field(0, ge=0)
    """How many publications of weights old data may be. 0 collects, then updates (synchronous); above 0 both go on at once."""
    max_concurrent: int = Field(0, ge=0)
    """Tasks in play at a time while the update goes on; 0 means as many as `tasks`."""
    wave: int = Field(0, ge=0)
    """Tasks that begin together and go in step, so that each call to a policy is one batch; 0 means as many as `tasks`."""
    partial: bool = True
    """New weights interrupt answers in mid-sequence, which go on with them; false lets the answers end first."""
    publish_every: int = Field(1, ge=1)
    """Updates between publications of weights to those that generate; evaluations and checkpoints publish too."""

    @property
    def most_tasks(self) -> int:
        """Tasks that an iteration may play."""
        return ceil(self.tasks * self.over_sampling)

    @property
    def concurrency(self) -> int:
        """Tasks in play at a time."""
        return self.max_concurrent or self.tasks

    @property
    def wave_tasks(self) -> int:
        """Tasks that begin together, at most."""
        return min(self.wave or self.tasks, self.concurrency)

    @property
    def waves(self) -> int:
        """Waves in play at a time."""
        return -(-self.concurrency // self.wave_tasks)


class Resources(Section):
    """Processes that the whole run shares."""

    environment_workers: int = Field(2, ge=1, le=10_000)
    """Processes that step environments."""
    environments_per_worker: int = Field(32, ge=1)
    """Environments that one such process hosts at a time; workers x this must hold the tasks of an iteration."""
    environment_cpus: float = Field(0.1, ge=0.0)
    """CPU cores per environment worker (for scheduling)."""
    threads: int = Field(1, ge=1)
    """Threads per process for tensor work."""
