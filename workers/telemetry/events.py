"""Events: a run's reports, one JSON object per line.

Every event has (run, attempt, producer, seq). A producer is a new id per process start; its seq counts from 1
without gaps. Times are seconds since the epoch. Numbers that JSON lacks are sent as "NaN", "Infinity", "-Infinity".
The reporter writes plain dicts of these shapes; the server validates them with these models.
"""

import base64
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, Literal, Self, TypeVar

import orjson
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, FailFast, Field, model_validator

from workers.telemetry.limits import (
    MAX_BINS,
    MAX_CAPTION,
    MAX_CELL,
    MAX_COLUMNS,
    MAX_DATA,
    MAX_DEPTH,
    MAX_EDGE,
    MAX_IMAGE,
    MAX_ITEMS,
    MAX_KEYS,
    MAX_MEDIA_TEXT,
    MAX_METRICS,
    MAX_NAME,
    MAX_ROWS,
    MAX_TEXT,
    NAME_FIRST,
    NAME_REST,
    image_type,
)


def _small(value: dict[str, Any]) -> dict[str, Any]:
    """Free-form data within MAX_DATA and MAX_DEPTH."""
    try:
        size = len(orjson.dumps(value))
    except orjson.JSONEncodeError as error:  # orjson itself allows 254 levels
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels, or no JSON: {error}") from error
    if size > MAX_DATA:
        raise ValueError(f"has {size} bytes as JSON, at most {MAX_DATA} are stored")
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [item for node in level for item in (node.values() if isinstance(node, dict) else node)]
        level = [item for item in level if isinstance(item, dict | list)]
        if not level:
            return value
    raise ValueError(f"nested deeper than {MAX_DEPTH} levels")


def _few(value: Any) -> Any:
    """At most MAX_METRICS names. Checked before validation, to avoid millions of messages."""
    if isinstance(value, dict) and len(value) > MAX_METRICS:
        raise ValueError(f"has {len(value)} names, at most {MAX_METRICS} are stored of one event")
    return value


Number = Annotated[float, Field(allow_inf_nan=False)] | Literal["NaN", "Infinity", "-Infinity"]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Int32 = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
# A bound in `= Field(ge=...)` overrides one in the annotation, so each range has a name.
Attempt = Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]
Seq = Annotated[int, Field(strict=True, ge=1, le=2**63 - 1)]
Size = Annotated[int, Field(ge=0, le=2**63 - 1)]
Pixels = Annotated[int, Field(ge=0, le=2**16)]
Mask = Annotated[int, Field(ge=0, le=1)]
Moment = Annotated[float, Field(ge=0, le=253402300799)]
"""Seconds since the epoch, until the year 9999."""
Data = Annotated[dict[str, Any], AfterValidator(_small)]
"""Free-form JSON."""
Key = Annotated[str, Field(max_length=MAX_NAME, pattern=f"^{NAME_FIRST}{NAME_REST}*$")]
Name = Annotated[str, Field(max_length=200)]
"""Name of a role or a policy; configs allow 40 characters."""
Item = TypeVar("Item")
Named = Annotated[dict[Name, Item], BeforeValidator(_few)]
Metrics = Annotated[dict[Key, Number], BeforeValidator(_few)]
Many = Annotated[list[Item], FailFast()]
"""A list whose validation stops at the first invalid item, to avoid millions of messages."""
State = Literal["starting", "running", "stopping", "finished", "stopped", "paused", "failed"]
EpisodeKind = Literal["train", "eval", "eval_sampled"]


class Strict(BaseModel):
    """Base of models that reject unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _few_fields(cls, data: Any) -> Any:
        if isinstance(data, dict) and len(data) > MAX_KEYS:
            raise ValueError(f"has {len(data)} fields, {len(cls.model_fields)} are known")
        return data


class Event(Strict):
    """Fields that every event has."""

    run: str = Field(max_length=40)
    attempt: Attempt
    producer: str = Field(min_length=1, max_length=40)
    seq: Seq
    time: Moment


class MetricsEvent(Event):
    """Scalars of one step. Steps are iterations; repeated or late steps are stored."""

    type: Literal["metrics"]
    step: Int64
    values: Metrics


class Part(Strict):
    """Base of the pieces of an event."""


Caption = Annotated[str, Field(max_length=MAX_CAPTION)]


class HistogramMedia(Part):
    """A distribution: the number of values in each of B bins, and the B + 1 increasing edges."""

    kind: Literal["histogram"]
    counts: Many[Annotated[float, Field(ge=0, le=MAX_EDGE)]] = Field(min_length=1, max_length=MAX_BINS)
    edges: Many[Annotated[float, Field(ge=-MAX_EDGE, le=MAX_EDGE)]] = Field(max_length=MAX_BINS + 1)
    caption: Caption = ""

    @model_validator(mode="after")
    def _increasing(self) -> Self:
        if len(self.edges) != len(self.counts) + 1 or any(low >= high for low, high in pairwise(self.edges)):
            raise ValueError("needs one more edge than counts, and edges that increase")
        return self


class ImageMedia(Part):
    """A picture, as the base64 of a file of a listed type."""

    kind: Literal["image"]
    data: Annotated[str, Field(max_length=MAX_IMAGE // 3 * 4 + 4)]
    width: Pixels = 0
    height: Pixels = 0
    """Pixels; 0 if unknown."""
    caption: Caption = ""

    @model_validator(mode="after")
    def _check_type(self) -> Self:
        if not image_type(self.content[:16]):
            raise ValueError("is neither PNG, JPEG, GIF nor WebP in base64")
        return self

    @cached_property
    def content(self) -> bytes:
        """The file; empty if `data` is not base64."""
        try:
            return base64.b64decode(self.data, validate=True)
        except ValueError:
            return b""


Cell = Annotated[str, Field(max_length=MAX_CELL)] | bool | int | float | None


class TableMedia(Part):
    """Rows of equal length with the names of their columns."""

    kind: Literal["table"]
    columns: Many[Annotated[str, Field(max_length=MAX_CELL)]] = Field(max_length=MAX_COLUMNS)
    rows: Many[Many[Cell]] = Field(max_length=MAX_ROWS)
    caption: Caption = ""

    @model_validator(mode="after")
    def _rectangular(self) -> Self:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"each row needs {len(self.columns)} cells, one for each column")
        return self


class TextMedia(Part):
    """A text."""

    kind: Literal["text"]
    text: str = Field(max_length=MAX_MEDIA_TEXT)
    caption: Caption = ""


AnyMedia = Annotated[HistogramMedia | ImageMedia | TableMedia | TextMedia, Field(discriminator="kind")]


class MediaEvent(Event):
    """Media of one name and step."""

    type: Literal["media"]
    step: Int64
    name: Key
    values: Many[AnyMedia] = Field(min_length=1, max_length=MAX_ITEMS)


class Candidate(Part):
    """One sampled answer of a group, with per-token arrays of equal length."""

    text: str
    token_ids: Many[Int64]
    tokens: Many[str]
    """Text of each token."""
    logprobs: Many[Number]
    """Log-probability of each token under the distribution it was sampled from."""
    versions: Many[Int64]
    """Policy version that sampled each token."""
    stop_reason: Literal["stop", "length", "interrupt"]
    local_reward: Number
    team_reward: Number
    reward: Number | None
    """None if a reward function returned None: the candidate is left out of its group."""
    value: Number | None = None
    """Estimated return of the role from this answer on, if candidates are compared by it: the reward and the mean of continuations."""
    advantage: Number | None = None
    messages: Many[Annotated[dict[str, str], BeforeValidator(_few)]] = []
    """What the answer consists of, if it is that of several calls or calls tools: role, content, tool_calls as text."""


class Turn(Part):
    """One agent's turn: its observation, its candidates, and the executed candidate."""

    index: Int32
    """Turn of the team, from 0."""
    role: Name
    policy: Name
    messages: Many[Annotated[dict[str, str], BeforeValidator(_few)]]
    """OpenAI chat messages of the agent's observation."""
    prompt_ids: Many[Int64]
    candidates: Many[Candidate]
    executed: Int32
    """Index of the executed candidate."""
    board: Data | None = None
    """State before the turn, for replay: a kind in training_core/boards.py. Other kinds are stored, but not drawn."""


class EpisodeEvent(Event):
    """One played task. Facts are searchable columns; the body is for display."""

    type: Literal["episode"]
    episode: str = Field(max_length=80)
    """Unique within the run: "<attempt>-<iteration>-<kind>-<index>"."""
    iteration: Int32
    kind: EpisodeKind
    probe: bool = False
    task: str = Field(max_length=200)
    """Stable id of the task; the same for a probe in every evaluation."""
    task_number: Int64 | None = None
    """Number with which the environment starts the task again; None if it cannot."""
    title: str = Field(max_length=200)
    """Short description of the task."""
    outcome: str = Field(max_length=200)
    """Short description of the outcome: "reached the goal", "turns used up", "failed: ..."."""
    success: bool | None
    """None if the environment does not define success."""
    failed: bool = False
    """Whether the environment raised an exception."""
    error: str = Field("", max_length=MAX_TEXT)
    truncated: bool = False
    """Whether an executed answer was cut at its token limit, or a prompt left no room for one."""
    episode_return: Number
    """Sum of the executed candidates' rewards."""
    rewards: Named[Number]
    """Sum of the executed candidates' rewards by role."""
    versions: Named[Int64]
    """Policy version by policy."""
    tokens: Int32
    """Response tokens over all candidates."""
    started: Moment
    ended: Moment
    turns: Many[Turn]
    final_board: Data | None = None
    """State after the last turn."""


class EpisodeAnnotationEvent(Event):
    """Results of the update for an episode that was reported before."""

    type: Literal["episode_annotation"]
    episode: str = Field(max_length=80)
    turns: Many["TurnAnnotation"]
    stages: Named[Moment] = {}
    """Times of its stages (seconds since the epoch): queued, generated, consumed ..."""


class TurnAnnotation(Part):
    """Values that the update computed, per candidate of one turn (same order)."""

    turn: Int32
    """Position in the episode's `turns`."""
    advantages: Many[Number]
    ratios: Many[Many[Number]] = []
    """Per candidate and token: pi / pi_old at the first pass."""
    entropies: Many[Many[Number]] = []
    """Per candidate and token, in nats."""
    training_logprobs: Many[Many[Number]] = []
    """Per candidate and token: log-probability by the learner before the update's first step, at the weights that sampled it."""
    masks: Many[Many[Mask]] = []
    """Per candidate and token: 1 if the token was trained on, else 0; if empty, all tokens with ratios were trained on."""


class EpisodeStage(Part):
    """A part of an episode's time."""

    kind: Literal["generate", "environment"]
    """What the episode waited for: a policy, or its environment and tools."""
    start: Moment
    end: Moment
    role: str = Field("", max_length=80)
    policy: str = Field("", max_length=80)
    versions: tuple[Int64, Int64] | None = None
    """Oldest and newest policy version of the generated tokens."""


class RoleShare(Part):
    """One role's part of an episode: its executed answers."""

    policy: str = Field(max_length=80)
    reward: Number
    tokens: Int32
    truncated: bool


class BatchEpisode(Part):
    """One episode of an update's batch: facts and times (seconds since the epoch), no texts."""

    episode: str = Field(max_length=80)
    """Id as in EpisodeEvent; not every episode has a transcript."""
    title: str = Field("", max_length=200)
    success: bool
    failed: bool = False
    truncated: bool = False
    episode_return: Number
    length: Int32
    """Response tokens of the executed answers."""
    tokens: Int32
    """Response tokens over all candidates."""
    turns: Int32
    staleness: Int64 | None = None
    """Number of publications between the oldest token and the update; the maximum over policies."""
    queued: Moment
    """Earliest possible start."""
    started: Moment
    ended: Moment
    stages: Many[EpisodeStage] = []
    roles: Named[RoleShare] = {}


class BatchEvent(Event):
    """The episodes of one iteration's update. A large batch is split into several events."""

    type: Literal["batch"]
    iteration: Int32
    consumed: Moment
    """Start of the update."""
    learnt: Moment
    """End of the last policy's update."""
    episodes: Many[BatchEpisode]


class PhaseEvent(Event):
    """A span of one worker's time."""

    type: Literal["phase"]
    worker: str = Field(max_length=80)
    phase: Literal["rollout", "update", "sync", "evaluate", "checkpoint", "load"]
    policy: str = Field("", max_length=40)
    iteration: Int32
    start: Moment
    end: Moment
    flops: Amount | None = None
    """Model FLOPs of the work; None if they are not counted."""
    peak: Amount | None = None
    """Peak FLOP/s of the worker's device; None if unknown."""


class UtilisationEvent(Event):
    """Utilisation of a worker's device: (time, percent), ordered by time."""

    type: Literal["utilisation"]
    worker: str = Field(max_length=80)
    device: str = Field(max_length=200)
    """Host and device; the same for workers that share one."""
    samples: Many[tuple[Moment, Annotated[float, Field(ge=0, le=100)]]] = Field(
        min_length=1, max_length=10_000
    )


class CheckpointEvent(Event):
    """A checkpoint was written, deleted by retention (`removed`), or found to differ from its manifest (`damaged`)."""

    type: Literal["checkpoint"]
    iteration: Int32
    path: str = Field(max_length=400)
    """Relative to the run folder."""
    bytes: Size
    metrics: Metrics = {}
    best: bool = False
    removed: bool = False
    damaged: str = Field("", max_length=2000)
    """Description of the damage."""


class LogEvent(Event):
    """A line for the run's log."""

    type: Literal["log"]
    level: Literal["debug", "output", "info", "warning", "error"]
    """output: written by a process to stdout or stderr."""
    source: str = Field(max_length=80)
    message: str = Field(max_length=MAX_TEXT)


class StatusEvent(Event):
    """The driver's own state."""

    type: Literal["status"]
    state: State
    iteration: Int64
    """Iterations completed."""
    message: str = Field("", max_length=MAX_TEXT)
    """What the run does; of a failed one the cause, as one sentence."""
    remedy: str = Field("", max_length=MAX_TEXT)
    """Of a failed one: what to do, as one sentence."""
    facts: Data = {}
    """Sent once at start: {"packages": {...}, "base_models": {policy: {...}}, "resumed_from": ...}."""


class HeartbeatEvent(Event):
    """The driver is alive. Sent every 5 s, regardless of other events."""

    type: Literal["heartbeat"]
    iteration: Int64
    lost: Size = 0
    """Events of the producer that are lost, because its disk was full; sent when there are new ones."""


AnyEvent = Annotated[
    MetricsEvent
    | MediaEvent
    | EpisodeEvent
    | EpisodeAnnotationEvent
    | BatchEvent
    | PhaseEvent
    | UtilisationEvent
    | CheckpointEvent
    | LogEvent
    | StatusEvent
    | HeartbeatEvent,
    Field(discriminator="type"),
]

# Ingest: POST /api/v1/runs/{id}/events/  body: NDJSON of events of ONE producer, optionally Content-Encoding: zstd or gzip.
# 200 {"acknowledged": <last stored seq of that producer>, "command": null | "stop" | "pause" | "exit"}
#     ("exit": this attempt was superseded; stop at once without a checkpoint)
# 404 {"code": "unknown_run" | "unknown_attempt"}: try again later;
# 409 {"code": "gap", "expected": <seq>}; 400 {"code": "invalid", "seq": <seq or null>, "errors": {...}};
# 413 too large; 503 try again; 401/403 token.
