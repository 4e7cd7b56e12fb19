"""The anatomy of a batch: the episodes of one iteration's update, and the time spent on them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Any

import orjson
import zstandard
from django.db.models import Max, Min

from webapp.metrics.arrays import spell
from webapp.runs.models import Phase, Run
from webapp.timeline.compute import Compute, compute_by_phase, compute_document
from webapp.timeline.models import Batch
from webapp.timeline.spans import LaneSpan
from webapp.transcripts.models import Episode, EpisodeAnnotation


@dataclass
class BatchMember:
    """One episode of a batch; times in seconds since the epoch."""

    name: str
    title: str
    success: bool | None
    """None if the environment has no success."""
    failed: bool
    truncated: bool
    episode_return: float
    length: int
    """Response tokens of the executed responses (of all, if only those are recorded)."""
    tokens: int
    turns: int
    staleness: int | None
    queued: float
    started: float
    ended: float
    consumed: float | None
    learnt: float | None
    stages: list[dict[str, Any]] = field(default_factory=list)
    """As workers.telemetry.events.EpisodeStage."""
    roles: dict[str, dict[str, Any]] = field(default_factory=dict)
    """As workers.telemetry.events.RoleShare."""
    transcript: int | None = None
    """Id of its transcript, if one was stored."""

    def seconds(self) -> dict[str, float]:
        """Return seconds by wait: queued, generate, environment, update."""
        spent = {"queued": self.started - self.queued, "generate": 0.0, "environment": 0.0}
        for stage in self.stages:
            spent[stage["kind"]] += stage["end"] - stage["start"]
        spent["update"] = (self.consumed - self.ended) if self.consumed is not None else 0.0
        return {name: max(0.0, value) for name, value in spent.items()}


SORTS: dict[str, Callable[[BatchMember], float]] = {
    "start": lambda member: member.started,
    "end": lambda member: member.ended,
    "time": lambda member: member.ended - member.started,
    "length": lambda member: member.length,
    "reward": lambda member: member.episode_return if isfinite(member.episode_return) else -inf,
    "turns": lambda member: member.turns,
    "staleness": lambda member: -1 if member.staleness is None else member.staleness,
}
"""Sort orders of a batch; with a "-" prefix in descending order."""
ORDERS = tuple(SORTS) + tuple(f"-{name}" for name in SORTS)


@dataclass(frozen=True)
class Anatomy:
    """A batch."""

    iteration: int
    attempt: int
    members: list[BatchMember]
    partial: bool
    """Only episodes with transcripts are known, because the program reports no batches."""
    lowest: int
    highest: int
    """Iterations with batches."""
    compute: dict[str, Compute] = field(default_factory=dict)
    """By phase, over all policies, if FLOPs were counted."""

    @property
    def start(self) -> float:
        """Earliest time at which an episode could start."""
        return min((member.queued for member in self.members), default=0.0)

    @property
    def end(self) -> float:
        """Time at which the update was finished."""
        return max((max(member.ended, member.learnt or 0.0) for member in self.members), default=0.0)


def anatomy_read(run: Run, iteration: int | None = None, sort: str = "start") -> Anatomy | None:
    """Return the batch of an iteration (None: the latest) in the latest attempt. None if there are no episodes."""
    bounds = Batch.objects.filter(run=run).aggregate(low=Min("iteration"), high=Max("iteration"))
    reader, partial = _batches, False
    if bounds["high"] is None:
        trained = Episode.objects.filter(run=run, kind="train")
        bounds = trained.aggregate(low=Min("iteration"), high=Max("iteration"))
        reader, partial = _transcripts, True
    if bounds["high"] is None:
        return None
    iteration = bounds["high"] if iteration is None else iteration
    attempt, members = reader(run, iteration)
    members.sort(key=lambda member: member.name)
    members.sort(key=SORTS[sort.removeprefix("-")], reverse=sort.startswith("-"))
    compute = _compute(run, iteration, attempt)
    return Anatomy(iteration, attempt, members, partial, bounds["low"], bounds["high"], compute)


def _compute(run: Run, iteration: int, attempt: int) -> dict[str, Compute]:
    spans = Phase.objects.filter(run=run, iteration=iteration, attempt=attempt, flops__isnull=False)
    names = ("phase", "iteration", "start", "end", "flops", "peak")
    return compute_by_phase(LaneSpan(*row) for row in spans.values_list(*names))


def _batches(run: Run, iteration: int) -> tuple[int, list[BatchMember]]:
    rows = list(Batch.objects.filter(run=run, iteration=iteration).order_by("pk"))
    attempt = max((row.attempt for row in rows), default=0)
    members = [
        _member(facts, row)
        for row in rows
        if row.attempt == attempt
        for facts in orjson.loads(zstandard.decompress(row.data))
    ]
    names = Episode.objects.filter(run=run, iteration=iteration, name__in=[member.name for member in members])
    transcript_ids = dict(names.values_list("name", "pk"))
    for member in members:
        member.transcript = transcript_ids.get(member.name)
    return attempt, members


def _member(facts: dict[str, Any], row: Batch) -> BatchMember:
    return BatchMember(
        name=facts["episode"],
        title=facts.get("title", ""),
        success=facts["success"],
        failed=facts.get("failed", False),
        truncated=facts.get("truncated", False),
        episode_return=float(facts["episode_return"]),
        length=facts["length"],
        tokens=facts["tokens"],
        turns=facts["turns"],
        staleness=facts.get("staleness"),
        queued=facts["queued"],
        started=facts["started"],
        ended=facts["ended"],
        consumed=row.consumed,
        learnt=row.learnt,
        stages=facts.get("stages", []),
        roles=facts.get("roles", {}),
    )


def _transcripts(run: Run, iteration: int) -> tuple[int, list[BatchMember]]:
    """Reconstruct a batch from transcripts: for custom programs, and runs recorded before batches were."""
    episodes = Episode.objects.filter(run=run, kind="train", iteration=iteration)
    attempt = episodes.aggregate(latest=Max("attempt"))["latest"] or 0
    rows = list(episodes.filter(attempt=attempt))
    stages = _stages(run, [row.name for row in rows])
    return attempt, [_batch_member(row, stages.get(row.name, {})) for row in rows]


def _batch_member(row: Episode, stages: dict[str, float]) -> BatchMember:
    return BatchMember(
        name=row.name,
        title=row.title,
        success=row.success,
        failed=row.failed,
        truncated=row.truncated,
        episode_return=row.episode_return,
        length=row.tokens,
        tokens=row.tokens,
        turns=row.turn_count,
        staleness=None,
        queued=min(stages.get("queued", row.started), row.started),
        started=row.started,
        ended=max(row.started, row.ended),
        consumed=stages.get("consumed"),
        learnt=stages.get("learnt"),
        transcript=row.pk,
    )


def _stages(run: Run, names: Iterable[str]) -> dict[str, dict[str, float]]:
    rows = EpisodeAnnotation.objects.filter(run=run, episode_name__in=list(names)).order_by("pk")
    return {row.episode_name: orjson.loads(zstandard.decompress(row.data)).get("stages", {}) for row in rows}


def anatomy_document(anatomy: Anatomy | None) -> dict[str, Any]:
    """Return JSON for the API: facts of the batch, and of each episode its times, "seconds" by wait, stages, roles."""
    if anatomy is None:
        return {
            "iteration": None,
            "attempt": None,
            "start": None,
            "end": None,
            "partial": False,
            "compute": {},
            "episodes": [],
        }
    facts = ("iteration", "attempt", "start", "end", "partial", "lowest", "highest")
    return {
        **{name: getattr(anatomy, name) for name in facts},
        "compute": compute_document(anatomy.compute),
        "episodes": [_document(member) for member in anatomy.members],
    }


def _document(member: BatchMember) -> dict[str, Any]:
    plain = (
        "name", "title", "success", "failed", "truncated", "length", "tokens", "turns", "staleness", "queued", "started",
        "ended", "consumed", "learnt", "stages", "roles", "transcript",
    )  # fmt: skip
    return {
        **{name: getattr(member, name) for name in plain},
        "episode_return": spell(member.episode_return),
        "seconds": member.seconds(),
    }
