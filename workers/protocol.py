"""What the driver, the coordinator and the workers exchange: plain lists and numbers, cheap to pickle, without tensors. The driver imports
this module, which is free of torch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from training_core.config.kinds import AnyConfig
from training_core.config.models import Policy
from training_core.config.run import RunConfig
from training_core.errors import TroupeError
from training_core.llm.generation.base import SamplingSettings
from training_core.types import Answer, Group, Prompt

EpisodeKind = Literal["train", "eval", "eval_sampled"]
Phase = Literal["rollout", "update", "sync", "evaluate", "checkpoint", "load"]
StopCheck = Callable[[], None]
"""Called at points where a run may stop."""


class WorkerLost(TroupeError):
    """A worker that cannot be replaced within the attempt died; a new attempt resumes from the last checkpoint."""


class TransferFailure(TroupeError):
    """Weights could not be broadcast; they are sent through the object store instead, and the next publication connects again."""


class Superseded(Exception):
    """A newer attempt of the run exists: this one ends immediately, without a checkpoint."""


class StoppedBeforeStart(Exception):
    """A stop was requested while the attempt waited for devices or models. `command` is "stop" or "pause"."""

    def __init__(self, command: str) -> None:
        super().__init__(command)
        self.command = command


@dataclass(frozen=True)
class StopChecks:
    """Callbacks that a backend calls while it waits."""

    starting: StopCheck
    """While workers start. Raises Superseded, StoppedBeforeStart."""
    running: StopCheck
    """After the start: the current step is completed, unless a newer attempt exists. Raises Superseded."""
    stop_requested: Callable[[], bool] = lambda: False
    """Whether a stop was requested: outside programs are then no longer waited for."""
    waiting: Callable[[str], None] = lambda reason: None
    """Told while tasks are played: what the run waits for that outside programs do; empty if it does not wait."""
    collecting: StopCheck = lambda: None
    """While training tasks are played: writes a checkpoint of the last completed iteration once a stop is requested."""
    evaluating: StopCheck = lambda: None
    """While held-out tasks are played: the same, but only if the attempt must end immediately."""
    must_end_now: Callable[[], bool] = lambda: False
    """Whether the attempt must end immediately (SIGTERM): a running collection is aborted."""


@dataclass(frozen=True)
class Attempt:
    """The parameters of one attempt."""

    config: AnyConfig
    run: str
    number: int
    folder: Path
    home: Path
    resume_from: Path | None = None
    ingest_url: str = ""
    ingest_token: str = field(default="", repr=False)
    fork_from: Path | None = None
    """Checkpoint of another run; unused if `resume_from` is set."""
    fall_back: bool = False
    """Whether an earlier checkpoint of the run is used if `resume_from` is damaged."""
    engines: Mapping[str, str] = field(default_factory=dict)
    """By policy with engine.type = "auto": the engine and the reason."""

    @property
    def start_from(self) -> Path | None:
        """The checkpoint that is loaded, of this run or another."""
        return self.resume_from or self.fork_from

    @property
    def forks(self) -> bool:
        """Whether it starts from another run's checkpoint."""
        return self.resume_from is None and self.fork_from is not None


@dataclass(frozen=True)
class Span:
    """A stretch of one worker's time; seconds since the epoch."""

    worker: str
    phase: Phase
    policy: str
    iteration: int
    start: float
    end: float
    flops: float | None = None
    """Model FLOPs of the work; None if they are not counted."""
    peak: float | None = None
    """Peak FLOP/s of the worker's device; None if unknown."""


@dataclass(frozen=True)
class Load:
    """Utilisation of a worker's device."""

    worker: str
    device: str
    """Host and device; the same for workers that share one."""
    samples: list[tuple[float, float]]
    """(seconds since the epoch, percent in use), ordered by time."""


@dataclass
class System:
    """Load of the workers' machines and devices."""

    hosts: dict[str, dict[str, float]]
    """Metrics by machine name."""
    loads: list[Load] = field(default_factory=list)

    def add(self, other: "System") -> None:
        """Merge another record into this one."""
        self.hosts.update(other.hosts)
        self.loads.extend(other.loads)


@dataclass(frozen=True)
class EpisodeFacts:
    """The numbers of one episode that metrics need."""

    success: bool | None
    """None if the environment does not define success."""
    failed: bool
    episode_return: float
    rewards: dict[str, float]
    """Sum of the executed candidates' rewards by role."""
    candidate_rewards: dict[str, float]
    """Sum of all candidates' rewards by role."""
    candidates: dict[str, int]
    """Number of candidates by role."""
    cut: int
    """Number of candidates cut at their token limit."""
    tokens: int
    """Response tokens over all candidates and their continuations."""
    turns: int
    """Number of the team's turns."""
    reward_timeouts: int | None = None
    """Number of answers whose reward function timed out; None if no reward function was called."""
    error: str = ""
    """Reason of a failure; empty otherwise."""
    overlong: str = ""
    """Why it ended early, if a prompt left no room for an answer in the model's context; otherwise empty."""
    unscored: int = 0
    """Number of answers without a reward."""
    unscored_candidates: dict[str, int] = field(default_factory=dict)
    """Number of candidates without a reward by role."""
    scored: bool = True
    """False if an executed candidate has no reward, so that the episode's return is not known."""
    successes: dict[str, bool] = field(default_factory=dict)
    """Success by role and by role/agent, where the environment reports it separately."""
    cut_by_role: dict[str, int] = field(default_factory=dict)
    """Number of candidates cut at their token limit, by role."""
    reward_parts: dict[str, dict[str, float]] = field(default_factory=dict)
    """Parts of the rewards by role and by name."""
    failed_role: str = ""
    """Role whose turn it was when the episode failed or its agent raised; empty if it is not known."""
    agent_error: str = ""
    """Error of an agent that counts as workflow.failure_reward; empty otherwise."""
    lost_groups: int = 0
    """Number of groups that are left out because their continuations give no comparable values."""


@dataclass
class Collected:
    """One collection of episodes: facts of all of them, transcripts of the selected ones."""

    facts: list[EpisodeFacts]
    transcripts: list[dict[str, Any]]
    spans: list[Span] = field(default_factory=list)
    seconds: float = 0.0
    """Time that the loop waited for the collection."""
    ahead: "Ahead | None" = None
    """State of play in the background; None in the synchronous loop."""
    figures: dict[str, float] = field(default_factory=dict)
    """Additional metrics, by full name."""
    env_steps: int | None = None
    """Environment steps of small networks, including those of unfinished episodes; None for language models."""
    failures_limited: bool = False
    """Whether the backend itself ends a run whose episodes all fail; it also sees unfinished episodes."""


@dataclass(frozen=True)
class Ahead:
    """State of play in the background when a batch was taken."""

    seconds: float
    """Seconds since the previous batch: the period of generation rates."""
    rejected: int
    """Number of tasks rejected as too old."""
    waiting: int
    """Number of finished tasks for later updates."""
    admission: dict[str, Any]
    """State of task admission for a checkpoint."""


@dataclass
class Updated:
    """One update of every trained policy."""

    metrics: dict[str, dict[str, float]]
    """By policy; names without prefix: loss, entropy, kl ..."""
    annotations: list[dict[str, Any]]
    """Annotations of the episodes that have transcripts."""
    groups: dict[str, dict[str, int]]
    """Group counts by role: total, zero_variance, too_easy, too_hard, filtered."""
    dropped: int | None
    """Number of stale answers left out (rollout.stale = "drop"); None if none can be stale."""
    staleness: float | None
    """Mean age of the answers in versions; None if they are always current."""
    spans: list[Span] = field(default_factory=list)
    batch: list[dict[str, Any]] = field(default_factory=list)
    """Fields of batch events, which list the episodes of the update."""
    distributions: dict[str, list[float]] = field(default_factory=dict)
    """Values of networks' weights and gradients, by name without prefix; empty unless histograms are logged."""


@dataclass(frozen=True)
class Started:
    """Facts that are known once all workers have started."""

    base_models: dict[str, dict[str, Any]]
    """Facts about the base model, by policy."""
    base_evaluation: dict[str, dict[str, float]] = field(default_factory=dict)
    """Evaluation metrics stored with the base models: metric prefix ("eval", "eval_sampled") -> metrics."""
    spans: list[Span] = field(default_factory=list)
    gateway: dict[str, str] | None = None
    """Address (`url`) of the gateway for custom agents, and the `token` with which they take episodes."""
    machines: list[dict[str, Any]] = field(default_factory=list)
    """Machines of the cluster: host, cores, memory (bytes), gpus. Empty for a run in one process."""


class TrainingBackend(Protocol):
    """Executes the steps of a run for the driver's loop, in this process or on Ray."""

    def start(self, resume_from: Path | None) -> Started:
        """Start every worker with a checkpoint or the base models. Raises ModelError, CheckpointError."""
        ...

    def collect(self, iteration: int) -> Collected:
        """Play one iteration's training tasks and form groups. Raises StalePolicy, EngineFailure, StopRequested."""
        ...

    def play_ahead(self, completed: int, admission: dict[str, Any] | None) -> None:
        """Play training tasks in the background from now on; `collect` then waits for a batch of them.

        `completed` is the number of completed iterations, `admission` the state of Ahead from a checkpoint.
        """
        ...

    def update(self, iteration: int) -> Updated:
        """Update every trained policy, in parallel, on the last collection. Raises StalePolicy."""
        ...

    def publish(self, iteration: int) -> list[Span]:
        """Send the new weights of each updated policy to its rollout workers, as its next version."""
        ...

    def evaluate(self, iteration: int, kind: EpisodeKind, episodes: int) -> Collected:
        """Play the first held-out tasks without learning. Raises StopRequested."""
        ...

    def snapshot(self) -> Any:
        """The current weights in the form that the run's evaluator loads; only of lead actors."""
        raise AssertionError("this backend has no evaluator")

    def begin_evaluation(self, iteration: int, plays: Sequence[tuple[EpisodeKind, int]]) -> None:
        """Have the evaluator play with the current weights: (kind, episodes). Returns before it has ended."""
        raise AssertionError("this backend has no evaluator")

    def evaluated(self, *, wait: bool) -> list[Collected] | None:
        """Results of the evaluator, one for each kind; None if it is still playing, or if a stop request ended the wait."""
        raise AssertionError("this backend has no evaluator")

    def save(self, folder: Path) -> None:
        """Write every trained policy's part of a checkpoint into `folder`. Raises CheckpointError.

        May be called during `collect` or `evaluate`: it writes the state after the last update.
        """
        ...

    def system(self) -> System:
        """Load of every machine that has a worker, and of the workers' devices since the last call."""
        ...

    def close(self) -> None:
        """End every worker."""
        ...


Address = tuple[str, int]
"""Host and port at which processes connect to each other."""


@dataclass(frozen=True)
class WorkerSpec:
    """Parameters of one worker of one policy."""

    name: str
    policy: str
    config: RunConfig
    home: Path
    """TROUPE_HOME, where base models are cached."""
    gpus: float = 0.0
    rank: int = 0
    """Index among the policy's workers of the same kind."""
    one_process: bool = False
    """Whether all policies of the run are in this process and share its GPU."""

    @property
    def section(self) -> Policy:
        """The policy's part of the config."""
        return self.config.policies[self.policy]

    @property
    def gpu_field(self) -> str:
        """The config field that requests the worker's GPUs."""
        if self.name == f"evaluator-{self.policy}":
            return "evaluation.gpus"
        kind = "update" if self.name.startswith("update") else "rollout"
        return f"policies.{self.policy}.devices.{kind}_gpus"


@dataclass(frozen=True)
class Ready:
    """Facts about a policy whose workers have started."""

    model: str
    """Folder or hub id that model and tokenizer were loaded from."""
    base: dict[str, Any]
    """Facts about the base model, including its troupe.json if it has one."""
    version: int
    spans: list[Span] = field(default_factory=list)


@dataclass(frozen=True)
class Generated:
    """Answers per prompt, and the workers' spans."""

    answers: list[list[Answer]]
    spans: list[Span]


@dataclass(frozen=True)
class TokenFigures:
    """Values that a learner computed for one group, per answer and token; empty lists for answers that it did not get."""

    ratios: list[list[float]]
    entropies: list[list[float]]
    training_logprobs: list[list[float]]
    masks: list[list[int]]
    """1 for tokens in the loss, else 0."""


@dataclass(frozen=True)
class PolicyUpdate:
    """Result of one policy's update."""

    metrics: dict[str, float]
    annotations: dict[tuple[str, int], TokenFigures]
    """By (episode, turn position), for the requested episodes."""
    answers: int
    dropped: int
    lag: int
    spans: list[Span]
    """One per update process."""


class PolicyProxy(Protocol):
    """The interface of one policy's workers for the coordinator, in this process or on Ray."""

    def start(self, resume_from: Path | None) -> Ready:
        """Load model, optimiser and, if given, the checkpoint. Raises ModelError, CheckpointError."""
        ...

    def generate(self, prompts: list[Prompt], settings: SamplingSettings, version: int) -> Generated:
        """Sample answers with the weights of `version`. Raises StalePolicy, EngineFailure."""
        ...

    def update(self, groups: list[Group], iteration: int, version: int, annotated: set[str]) -> PolicyUpdate:
        """Update once on data of `version`. Returns token values of the `annotated` episodes. Raises StalePolicy."""
        ...

    def publish(self, version: int, iteration: int) -> list[Span]:
        """Send the updated weights to the policy's rollout workers as `version`, before they generate again."""
        ...

    def save(self, folder: Path) -> None:
        """Write this policy's part of a checkpoint."""
        ...

    def system(self) -> System:
        """Load of the workers' machines, and of their devices since the last call."""
        ...
