"""Storage of episodes: facts in a row, the compressed body in a second table, annotations as they arrive."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Sum
from django.db.models.functions import Length

from webapp.runs.models import Run
from webapp.transcripts import words
from webapp.transcripts.bodies import annotation_packed, body_packed, unpacked
from webapp.transcripts.facts import advantages_add, facts_of
from webapp.transcripts.models import Episode, EpisodeAnnotation, EpisodeBody
from workers.telemetry.events import EpisodeAnnotationEvent, EpisodeEvent

BODY_BUDGET = 2 * 1024**3
"""Bytes of training bodies stored per run; above it the oldest are deleted, their facts stay."""
THIN_AT_ONCE = 500


def episodes_store(run: Run, cursor: int, events: list[EpisodeEvent]) -> None:
    """Store episodes. An existing name (another attempt's repetition of the same seq) is ignored."""
    names = {event.episode: event for event in events}
    there = set(Episode.objects.filter(run=run, name__in=names).values_list("name", flat=True))
    fresh = [event for name, event in names.items() if name not in there]
    bodies = [event.model_dump(mode="json", include={"turns", "final_board"}) for event in fresh]
    rows = Episode.objects.bulk_create(
        _row(run, cursor, event, body) for event, body in zip(fresh, bodies, strict=True)
    )
    EpisodeBody.objects.bulk_create(_body(row, body) for row, body in zip(rows, bodies, strict=True))
    for row in rows:
        run.episode_counts[row.kind] = run.episode_counts.get(row.kind, 0) + 1
    run.save(update_fields=["episode_counts"])
    early = EpisodeAnnotation.objects.filter(run=run, episode_name__in=[row.name for row in rows]).order_by(
        "pk"
    )
    _advantages_set(run, [(note.episode_name, note.attempt, unpacked(note.data)["turns"]) for note in early])


def _row(run: Run, cursor: int, event: EpisodeEvent, body: dict[str, Any]) -> Episode:
    facts = (event.title, event.outcome, event.task, event.episode, event.error)
    roles, groups = facts_of(body["turns"])
    return Episode(
        run=run,
        roles=roles,
        groups=groups,
        attempt=event.attempt,
        cursor=cursor,
        name=event.episode,
        iteration=event.iteration,
        kind=event.kind,
        probe=event.probe,
        task=event.task,
        title=event.title,
        outcome=event.outcome,
        success=event.success,
        failed=event.failed,
        error=event.error,
        truncated=event.truncated,
        episode_return=float(event.episode_return),
        rewards={role: _json_number(value) for role, value in event.rewards.items()},
        versions=event.versions,
        turn_count=len({turn.index for turn in event.turns}),
        tokens=event.tokens,
        started=event.started,
        ended=event.ended,
        environment=str(run.config.get("environment", {}).get("type", ""))[:80],
        words=words.vector(run.pk, words.searchable(facts, body)),
    )


def _json_number(value: float | str) -> float | str:
    """Convert NaN and infinities to strings: JSON columns cannot contain them."""
    number = float(value)
    return number if math.isfinite(number) else str(value)


def _body(row: Episode, document: dict[str, Any]) -> EpisodeBody:
    data, frames = body_packed(document)
    return EpisodeBody(episode=row, data=data, size=len(data), frames=frames)


def annotations_store(run: Run, cursor: int, events: list[EpisodeAnnotationEvent]) -> None:
    """Store annotations by updates; the episode may arrive later, or never."""
    EpisodeAnnotation.objects.bulk_create(_annotation(run, cursor, event) for event in events)
    _advantages_set(
        run,
        [
            (event.episode, event.attempt, event.model_dump(mode="json", include={"turns"})["turns"])
            for event in events
        ],
    )


def _advantages_set(run: Run, learnt: Sequence[tuple[str, int, list[dict[str, Any]]]]) -> None:
    """Add advantages to the facts of stored episodes. learnt: name and attempt of an episode, turns of its annotation."""
    if not learnt:
        return
    named = Episode.objects.filter(run=run, name__in=[name for name, _, _ in learnt])
    episodes = {(row.name, row.attempt): row for row in named.only("name", "attempt", "roles", "groups")}
    for name, attempt, turns in learnt:
        if episode := episodes.get((name, attempt)):
            advantages_add(episode.roles, episode.groups, turns)
    Episode.objects.bulk_update(episodes.values(), ["roles", "groups"])


def staleness_store(run: Run, staleness: Mapping[str, int | None]) -> None:
    """Store the staleness of an update's episodes, by name; episodes that are not stored are ignored."""
    rows = list(Episode.objects.filter(run=run, name__in=staleness).only("name"))
    for row in rows:
        row.staleness = staleness[row.name]
    Episode.objects.bulk_update(rows, ["staleness"])


def _annotation(run: Run, cursor: int, event: EpisodeAnnotationEvent) -> EpisodeAnnotation:
    data, frames = annotation_packed(event.model_dump(mode="json", include={"turns", "stages"}))
    return EpisodeAnnotation(
        run=run, episode_name=event.episode, attempt=event.attempt, cursor=cursor, data=data, frames=frames
    )


def bodies_thin(run: Run, budget: int = BODY_BUDGET) -> int:
    """Delete the oldest training bodies (not those of probes) with their annotations until the run's bodies and
    annotations fit the budget. Facts stay. Returns the number of deleted bodies.
    """
    bodies = EpisodeBody.objects.filter(episode__run=run)
    excess = _stored(run) - budget
    dropped = 0
    while excess > 0:
        oldest = list(
            bodies.filter(episode__kind="train", episode__probe=False)
            .order_by("episode_id")
            .values_list("episode_id", "episode__name", "size")[:THIN_AT_ONCE]
        )
        if not oldest:
            break
        notes = _annotation_sizes(run, [name for _, name, _ in oldest])
        gone: dict[int, str] = {}
        for pk, name, size in oldest:
            if excess <= 0:
                break
            gone[pk] = name
            excess -= size + notes.get(name, 0)
        EpisodeBody.objects.filter(episode_id__in=gone).delete()
        EpisodeAnnotation.objects.filter(run=run, episode_name__in=gone.values()).delete()
        dropped += len(gone)
    return dropped


def _stored(run: Run) -> int:
    """Return the total bytes of bodies and annotations."""
    bodies = EpisodeBody.objects.filter(episode__run=run).aggregate(total=Sum("size"))["total"] or 0
    notes = EpisodeAnnotation.objects.filter(run=run).aggregate(total=Sum(Length("data")))["total"] or 0
    return int(bodies + notes)


def _annotation_sizes(run: Run, names: list[str]) -> dict[str, int]:
    """Return bytes by episode name."""
    notes = EpisodeAnnotation.objects.filter(run=run, episode_name__in=names)
    return dict(
        notes.values("episode_name").annotate(size=Sum(Length("data"))).values_list("episode_name", "size")
    )
