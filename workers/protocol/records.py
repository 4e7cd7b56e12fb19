"""What workers hand to the driver: plain lists and numbers, cheap to pickle, with no tensor in them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from training_core.config.kinds import AnyConfig
from training_core.errors import TroupeError

EpisodeKind = Literal["train", "eval", "eval_sampled"]
Phase = Literal["rollout", "update", "sync", "evaluate", "checkpoint", "load"]
StopCheck = Callable[[], None]
"""Called at moments where a run may be left."""


class WorkerLost(TroupeError):
    """A worker died that cannot be replaced within the attempt; a new attempt goes on from the last checkpoint."""


class Superseded(Exception):
    """A newer attempt of the run exists: this one leaves at once, without a checkpoint."""


class StoppedBeforeStart(Exception):
    """A stop was asked for while the attempt still waited for devices or models. `command` is "stop" or "pause"."""

    def __init__(self, command: str) -> None:
        super().__init__(command)
        self.command = command


@dataclass(frozen=True)
class StopChecks:
    """Callbacks that a backend calls while it waits."""

    starting: StopCheck
    """While workers start. Raises Superseded, StoppedBeforeStart."""
    running: StopCheck
    """From then on: what is under way is finished, unless a newer attempt exists. Raises Superseded."""
    leaves: Callable[[], bool] = lambda: False
    """Whether a stop is asked for, so that nobody waits for others outside any longer."""
    collecting: StopCheck = lambda: None
    """While training tasks are played: writes a checkpoint of the last completed iteration once a stop is asked for."""
    evaluating: StopCheck = lambda: None
    """While held-out tasks are played: the same, but only where the attempt must end at once."""
    hurried: Callable[[], bool] = lambda: False
    """Whether the attempt must end at once (SIGTERM): a collection under way is left, not finished."""


@dataclass(frozen=True)
class Attempt:
    """All that one attempt is told."""

    config: AnyConfig
    run: str
    number: int
    folder: Path
    home: Path
    resume_from: Path | None = None
    ingest_url: str = ""
    ingest_token: str = field(default="", repr=False)
    fork_from: Path | None = None
    """Checkpoint of another run; unused where there is one of its own to resume from."""
    fall_back: bool = False
    """Whether an earlier checkpoint of the run is taken where `resume_from` is damaged."""

    @property
    def start_from(self) -> Path | None:
        """The checkpoint that is loaded, whosever it is."""
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
    """Model FLOPs that were needed; None where they are not counted."""
    peak: float | None = None
    """FLOP/s of the worker's device at its peak; None where it is not known."""


@dataclass(frozen=True)
class Load:
    """How busy a worker's device was."""

    worker: str
    device: str
    """Host and device; the same for workers that share one."""
    samples: list[tuple[float, float]]
    """(seconds since the epoch, percent in use), in order of time."""


@dataclass
class System:
    """What workers see of their machines and devices."""

    hosts: dict[str, dict[str, float]]
    """Load by machine: name to figures."""
    loads: list[Load] = field(default_factory=list)

    def add(self, other: "System") -> None:
        """Take in what others see."""
        self.hosts.update(other.hosts)
        self.loads.extend(other.loads)


@dataclass(frozen=True)
class EpisodeFacts:
    """What the metrics need of one episode."""

    success: bool | None
    """None where the environment knows no success."""
    failed: bool
    episode_return: float
    rewards: dict[str, float]
    """Sum of the executed candidates' rewards by role."""
    candidate_rewards: dict[str, float]
    """Sum of all candidates' rewards by role."""
    candidates: dict[str, int]
    """Number of candidates by role."""
    cut: int
    """Candidates that hit their token limit."""
    tokens: int
    """Response tokens over all candidates."""
    turns: int
    """Turns of the team."""
    reward_timeouts: int | None = None
    """Answers whose reward function ran out of time; None where none was asked."""
    error: str = ""
    """Why it failed; empty where it did not."""
    successes: dict[str, bool] = field(default_factory=dict)
    """By role, and by role/agent, of those of whom the environment says so on their own."""


@dataclass
class Collected:
    """One collection of episodes: facts of all, transcripts of those that are kept for reading."""

    facts: list[EpisodeFacts]
    transcripts: list[dict[str, Any]]
    spans: list[Span] = field(default_factory=list)
    seconds: float = 0.0
    """That the loop waited for it."""
    ahead: "Ahead | None" = None
    """Where play goes on while policies are updated."""
    figures: dict[str, float] = field(default_factory=dict)
    """Metrics that the workflow itself has, by full name."""
    env_steps: int | None = None
    """Steps of environments that small networks made, those of episodes under way included; None for language models."""


@dataclass(frozen=True)
class Ahead:
    """Play in the background, at the moment when a batch of it was handed over."""

    seconds: float
    """Since the batch before: what rates of generation are taken over."""
    rejected: int
    """Tasks that had grown too old to be learnt from."""
    waiting: int
    """Finished tasks that a later update will learn from."""
    admission: dict[str, Any]
    """What a checkpoint keeps of which tasks have begun."""


@dataclass
class Updated:
    """One update of every trained policy."""

    metrics: dict[str, dict[str, float]]
    """By policy, names without prefix: loss, entropy, kl ..."""
    annotations: list[dict[str, Any]]
    """Of the episodes whose transcripts were handed over."""
    groups: dict[str, dict[str, int]]
    """Group counts by role: total, zero_variance, too_easy, too_hard, filtered."""
    dropped: int | None
    """Stale answers left out (rollout.stale = "drop"); None where none can be stale."""
    staleness: float | None
    """Mean over the answers of how many versions old they were; None where they are always new."""
    spans: list[Span] = field(default_factory=list)
    batch: list[dict[str, Any]] = field(default_factory=list)
    """The episodes learnt from: fields of batch events."""
    distributions: dict[str, list[float]] = field(default_factory=dict)
    """Of networks' weights and gradients, by name without prefix; empty where no logger asks for them."""


@dataclass(frozen=True)
class Started:
    """What is known once the workers stand."""

    base_models: dict[str, dict[str, Any]]
    """By policy: what the base model is."""
    base_evaluation: dict[str, dict[str, float]] = field(default_factory=dict)
    """Figures of the base models that were kept with them: metric prefix ("eval", "eval_sampled") to metrics."""
    spans: list[Span] = field(default_factory=list)
    gateway: dict[str, str] | None = None
    """Address (`url`) of the gateway that agents of one's own talk to, and the `token` that lets them take episodes."""


class TrainingBackend(Protocol):
    """Executes the steps of a run for the driver's loop: in this process or on Ray."""

    def start(self, resume_from: Path | None) -> Started:
        """Bring up every worker, at a checkpoint or at the base models. Raises ModelError, CheckpointError."""
        ...

    def collect(self, iteration: int) -> Collected:
        """Play one iteration's training tasks and form groups. Raises StalePolicy, EngineFailure, StopRequested."""
        ...

    def play_ahead(self, completed: int, admission: dict[str, Any] | None) -> None:
        """From now on play training tasks in the background; `collect` then waits for a batch of them.

        After so many completed iterations; `admission` is what a checkpoint kept of Ahead.
        """
        ...

    def update(self, iteration: int) -> Updated:
        """Update every trained policy, in parallel, on what was just collected. Raises StalePolicy."""
        ...

    def publish(self, iteration: int) -> list[Span]:
        """Hand the new weights to those that generate: the next version of each trained policy."""
        ...

    def evaluate(self, iteration: int, kind: EpisodeKind, episodes: int) -> Collected:
        """Play the first held-out tasks without learning. Raises StopRequested."""
        ...

    def save(self, folder: Path) -> None:
        """Write every trained policy's part of a checkpoint into `folder`. Raises CheckpointError.

        May be called while `collect` or `evaluate` is under way: what is written is the state after the last update.
        """
        ...

    def system(self) -> System:
        """Load of every machine that has a worker, and of the workers' devices since the last call."""
        ...

    def close(self) -> None:
        """End every worker."""
        ...
