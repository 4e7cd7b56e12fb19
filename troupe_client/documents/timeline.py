"""Timelines of runs: spans of work by lane, waits, and the batches of updates. Times are seconds since the epoch."""

from typing import Any, Literal, Self

from pydantic import Field, FiniteFloat, model_validator

from troupe_client.documents.base import Body, Document, omitted

LARGEST = 2**31 - 1
LATEST = 253402300799.0
"""The end of the year 9999."""
Sort = Literal[
    "start", "end", "time", "length", "reward", "turns", "staleness",
    "-start", "-end", "-time", "-length", "-reward", "-turns", "-staleness",
]  # fmt: skip
"""Orders of a batch; with a "-" prefix descending."""


class TimelineWindow(Body):
    """A range of iterations, or of times."""

    first: int | None = Field(
        None, ge=-LARGEST, le=LARGEST, description="First iteration; default: ten before the last."
    )
    last: int | None = Field(None, ge=0, le=LARGEST, description="Last iteration; default: the latest.")
    from_: FiniteFloat | None = Field(
        None, ge=0, le=LATEST, alias="from", description="Instead of iterations: the start time."
    )
    to: FiniteFloat | None = Field(None, ge=0, le=LATEST, description="The end time.")

    @property
    def moments(self) -> tuple[float, float] | None:
        """Return the times; None unless both are set and in order."""
        if self.from_ is None or self.to is None or self.from_ >= self.to:
            return None
        return self.from_, self.to


class AskedWindow(TimelineWindow):
    """A window whose times are valid."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if (self.from_ is not None or self.to is not None) and self.moments is None:
            raise ValueError("from: give two times in order, from and to")
        return self


class PhaseCompute(Document):
    """Model FLOPs of a phase."""

    flops_per_second: float
    mfu: float | None = Field(description="0 to 1; null if a device's peak is unknown.")


class TimelineSpan(Document):
    """An interval of a worker's time."""

    phase: str
    iteration: int
    start: float
    end: float
    flops: float | None = omitted("Model FLOPs, if they are counted.")
    peak: float | None = omitted("Peak FLOP/s of the device, if known.")


class TimelineLane(Document):
    """The work of a worker for a policy."""

    worker: str
    policy: str
    label: str
    busy: dict[str, float] = Field(description="Seconds by phase.")
    waited: float = Field(description="Seconds of the window without a span.")
    device: str | None
    utilisation: list[tuple[float, float]] = Field(description="Times, and percent of the device in use.")
    compute: dict[str, PhaseCompute] = Field(description="By phase, if FLOPs are counted.")
    spans: list[TimelineSpan]


class LaneWait(Document):
    """The time that a lane waited while another one worked."""

    waiter: str
    awaited: str | None = Field(description="Null: no lane worked.")
    seconds: float


class IterationWait(Document):
    """The share of an iteration that each lane waited."""

    iteration: int
    start: float
    end: float
    shares: dict[str, float] = Field(description="By label, 0 to 1.")
    mean: float


class RunTimeline(Document):
    """The work in a window of a run; null times without spans."""

    first: int | None = None
    last: int | None = None
    start: float | None = None
    end: float | None = None
    cut: bool = Field(False, description="There are too many spans; later ones are omitted.")
    joined: bool = Field(False, description="Spans too close to distinguish are merged.")
    lowest: int | None = Field(None, description="First iteration with spans of the run.")
    highest: int | None = Field(None, description="Last iteration with spans of the run.")
    run_start: float | None = None
    run_end: float | None = None
    lanes: list[TimelineLane] = []
    waits: list[LaneWait] = Field([], description="Longest first.")
    iterations: list[IterationWait] = []


class BatchEpisode(Document):
    """An episode of a batch."""

    name: str
    title: str
    success: bool | None = Field(description="Null if the environment has no success.")
    failed: bool
    truncated: bool
    episode_return: float = Field(description="NaN and infinities are strings.")
    length: int = Field(
        description="Response tokens of the executed responses (of all, if only those are recorded)."
    )
    tokens: int
    turns: int
    staleness: int | None
    queued: float
    started: float
    ended: float
    consumed: float | None
    learnt: float | None
    stages: list[dict[str, Any]] = Field(description="Stages by policy version.")
    roles: dict[str, dict[str, Any]] = Field(description="Shares of roles.")
    transcript: int | None = Field(description="Id of its transcript, if one was stored.")
    seconds: dict[str, float] = Field(description="By wait: queued, generate, environment, update.")


class RunBatch(Document):
    """The episodes of one iteration's update."""

    iteration: int
    attempt: int
    start: float = Field(description="Earliest time at which an episode could start.")
    end: float = Field(description="When the update was finished.")
    partial: bool = Field(description="Only episodes with transcripts are known.")
    lowest: int = Field(description="First iteration with a batch.")
    highest: int = Field(description="Last iteration with a batch.")
    compute: dict[str, PhaseCompute] = Field(description="By phase, if FLOPs are counted.")
    episodes: list[BatchEpisode]
