"""The batch of an update: the episodes of one iteration, and the time spent on them."""

from collections.abc import Callable, Iterable, Sequence
from math import inf, isfinite
from typing import Any

import orjson
import zstandard
from django.db.models import Max, Min

from troupe_client.documents.timeline import BatchEpisode, PhaseCompute, RunBatch
from webapp.runs.models import Phase, Run
from webapp.timeline.models import Batch
from webapp.timeline.spans import LaneSpan, compute_by_phase
from webapp.transcripts.models import Episode, EpisodeAnnotation

SORTS: dict[str, Callable[[BatchEpisode], float]] = {
    "start": lambda member: member.started,
    "end": lambda member: member.ended,
    "time": lambda member: member.ended - member.started,
    "length": lambda member: member.length,
    "reward": lambda member: member.episode_return if isfinite(member.episode_return) else -inf,
    "turns": lambda member: member.turns,
    "staleness": lambda member: -1 if member.staleness is None else member.staleness,
}
"""Sort orders of a batch; with a "-" prefix in descending order."""


def batch_read(run: Run, iteration: int | None = None, sort: str = "start") -> RunBatch | None:
    """Return the batch of an iteration (None: the latest) in the latest attempt. None if there are no episodes.

    For custom programs, which report no batches, it has the episodes with transcripts.
    """
    candidates: Any = Batch.objects.filter(run=run)
    bounds = candidates.aggregate(low=Min("iteration"), high=Max("iteration"))
    if partial := bounds["high"] is None:
        candidates = Episode.objects.filter(run=run, kind="train")
        bounds = candidates.aggregate(low=Min("iteration"), high=Max("iteration"))
    if bounds["high"] is None:
        return None
    iteration = bounds["high"] if iteration is None else iteration
    stored = list(candidates.filter(iteration=iteration).order_by("pk"))
    attempt = max((row.attempt for row in stored), default=0)
    rows = [row for row in stored if row.attempt == attempt]
    members = _of_transcripts(run, rows) if partial else _of_batches(run, iteration, rows)
    members.sort(key=lambda member: member.name)
    members.sort(key=SORTS[sort.removeprefix("-")], reverse=sort.startswith("-"))
    return RunBatch(
        iteration=iteration, attempt=attempt, partial=partial, lowest=bounds["low"], highest=bounds["high"],
        compute=_compute(run, iteration, attempt), episodes=members,
        start=min((member.queued for member in members), default=0.0),
        end=max((max(member.ended, member.learnt or 0.0) for member in members), default=0.0),
    )  # fmt: skip


def _compute(run: Run, iteration: int, attempt: int) -> dict[str, PhaseCompute]:
    spans = Phase.objects.filter(run=run, iteration=iteration, attempt=attempt, flops__isnull=False)
    names = ("phase", "iteration", "start", "end", "flops", "peak")
    return compute_by_phase(LaneSpan(*row) for row in spans.values_list(*names))


def _member(**facts: Any) -> BatchEpisode:
    spent = {"queued": facts["started"] - facts["queued"], "generate": 0.0, "environment": 0.0}
    for stage in facts["stages"]:
        spent[stage["kind"]] += stage["end"] - stage["start"]
    spent["update"] = 0.0 if facts["consumed"] is None else facts["consumed"] - facts["ended"]
    return BatchEpisode(**facts, seconds={name: max(0.0, value) for name, value in spent.items()})


def _of_batches(run: Run, iteration: int, rows: Sequence[Batch]) -> list[BatchEpisode]:
    parts = [(row, facts) for row in rows for facts in orjson.loads(zstandard.decompress(row.data))]
    for _, facts in parts:
        facts["name"] = facts.pop("episode")
    names = [facts["name"] for _, facts in parts]
    stored = Episode.objects.filter(run=run, iteration=iteration, name__in=names).values_list("name", "pk")
    transcripts = dict(stored)
    defaults = {
        "title": "",
        "failed": False,
        "truncated": False,
        "staleness": None,
        "stages": [],
        "roles": {},
    }
    return [
        _member(
            **defaults | facts,
            consumed=row.consumed,
            learnt=row.learnt,
            transcript=transcripts.get(facts["name"]),
        )
        for row, facts in parts
    ]


def _of_transcripts(run: Run, rows: Sequence[Episode]) -> list[BatchEpisode]:
    names = ("name", "title", "success", "failed", "truncated", "episode_return", "tokens", "started")
    stages = _stages(run, [row.name for row in rows])
    return [
        _member(
            **{name: getattr(row, name) for name in names},
            length=row.tokens, turns=row.turn_count, staleness=None, stages=[], roles={}, transcript=row.pk,
            ended=max(row.started, row.ended), queued=min(times.get("queued", row.started), row.started),
            consumed=times.get("consumed"), learnt=times.get("learnt"),
        )
        for row in rows
        for times in [stages.get(row.name, {})]
    ]  # fmt: skip


def _stages(run: Run, names: Iterable[str]) -> dict[str, dict[str, float]]:
    rows = EpisodeAnnotation.objects.filter(run=run, episode_name__in=list(names)).order_by("pk")
    return {row.episode_name: orjson.loads(zstandard.decompress(row.data)).get("stages", {}) for row in rows}
