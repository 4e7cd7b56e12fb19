"""Storage of episodes and their annotations by updates, deletion of old bodies, and notes of users.

The row of an episode has figures by role and by turn, so that queries need not read its body.

`roles` = {role: {"turns", "tokens", "truncated", "advantage"}}. Tokens count all candidates; truncated: whether an executed answer was
cut at its token limit; advantage: the mean over the role's executed answers, missing until an update reports it.
`groups` = [{"role", "reward", "tokens", "truncated", "advantage", "candidates", "mean", "variance"}] of the first MOST_TURNS turns.
reward, tokens, truncated and advantage are those of the executed answer; mean and variance (unbiased) are of all candidates' rewards.
Missing values are left out. Numbers that are not finite are left out, too.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import isclose, isfinite
from statistics import fmean, variance
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet, Sum
from django.db.models.functions import Length
from django.http import Http404

from training_core.errors import ConfigError
from troupe_client.documents import transcripts as documents
from webapp.accounts.audit import audit_note
from webapp.accounts.models import User
from webapp.accounts.permissions import Person, can_edit, is_owner
from webapp.runs.models import Run
from webapp.transcripts import words
from webapp.transcripts.bodies import annotation_packed, body_packed, episode_document, unpacked
from webapp.transcripts.models import Episode, EpisodeAnnotation, EpisodeBody, EpisodeNote
from workers.telemetry.events import EpisodeAnnotationEvent, EpisodeEvent

MOST_TURNS = 2000

Roles = dict[str, dict[str, Any]]
Groups = list[dict[str, Any]]


def facts_of(turns: Iterable[Mapping[str, Any]]) -> tuple[Roles, Groups]:
    """Return (roles, groups) of the turns of a body. Advantages in the body itself, as a custom trainer reports them, count."""
    roles: Roles = {}
    groups: Groups = []
    advantages: list[tuple[str, float]] = []
    for turn in turns:
        group = _group(turn)
        groups.append(group)
        role = roles.setdefault(turn["role"], {"turns": 0, "tokens": 0, "truncated": False})
        role["turns"] += 1
        role["tokens"] += sum(len(candidate["token_ids"]) for candidate in turn["candidates"])
        role["truncated"] |= group.get("truncated", False)
        if "advantage" in group:
            advantages.append((turn["role"], group["advantage"]))
    _means_set(roles, advantages)
    return roles, groups[:MOST_TURNS]


def advantages_add(roles: Roles, groups: Groups, turns: Iterable[Mapping[str, Any]]) -> None:
    """Add the executed answers' advantages of an annotation's turns. `executed` of a group is its index among the candidates."""
    for turn in turns:
        index = turn["turn"]
        executed = groups[index].get("executed") if 0 <= index < len(groups) else None
        if executed is None or executed >= len(turn["advantages"]):
            continue
        if (advantage := _finite(turn["advantages"][executed])) is not None:
            groups[index]["advantage"] = advantage
    _means_set(roles, [(group["role"], group["advantage"]) for group in groups if "advantage" in group])


def _means_set(roles: Roles, advantages: Sequence[tuple[str, float]]) -> None:
    for name, role in roles.items():
        if values := [value for owner, value in advantages if owner == name]:
            role["advantage"] = fmean(values)


def _group(turn: Mapping[str, Any]) -> dict[str, Any]:
    candidates = turn["candidates"]
    group = {"role": turn["role"], "candidates": len(candidates)}
    rewards = [_finite(candidate["reward"]) for candidate in candidates]
    known = [reward for reward in rewards if reward is not None]
    scored = sum(candidate["reward"] is not None for candidate in candidates)
    if known and len(known) == scored:
        group["mean"] = fmean(known)
        if len(known) > 1:
            equal = isclose(min(known), max(known), rel_tol=1e-9)
            group["variance"] = 0.0 if equal else variance(known)
    executed = turn["executed"]
    if not 0 <= executed < len(candidates):
        return group
    answer = candidates[executed]
    figures = {"reward": rewards[executed], "advantage": _finite(answer.get("advantage"))}
    return group | {
        "executed": executed,
        "tokens": len(answer["token_ids"]),
        "truncated": answer["stop_reason"] == "length",
        **{name: value for name, value in figures.items() if value is not None},
    }


def _finite(value: float | str | None) -> float | None:
    number = None if value is None else float(value)
    return number if number is not None and isfinite(number) else None


BODY_BUDGET = 2 * 1024**3
"""Bytes of training bodies stored per run; above it the oldest are deleted, their facts stay."""
THIN_AT_ONCE = 500
AS_REPORTED = (
    "attempt", "iteration", "kind", "probe", "task", "title", "outcome", "success", "failed", "error", "truncated", "versions", "tokens",
    "started", "ended",
)  # fmt: skip
"""Columns of an episode with the values of its event."""


def episodes_store(run: Run, cursor: int, events: list[EpisodeEvent]) -> None:
    """Store episodes. An existing name (another attempt's repetition of the same seq) is ignored."""
    names = {event.episode: event for event in events}
    there = set(Episode.objects.filter(run=run, name__in=names).values_list("name", flat=True))
    fresh = [event for name, event in names.items() if name not in there]
    bodies = [
        event.model_dump(mode="json", include={"turns", "final_board", "task_number"}) for event in fresh
    ]
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
        cursor=cursor,
        name=event.episode,
        roles=roles,
        groups=groups,
        episode_return=float(event.episode_return),
        rewards={role: _json_number(value) for role, value in event.rewards.items()},
        turn_count=len({turn.index for turn in event.turns}),
        environment=str(run.config.get("environment", {}).get("type", ""))[:80],
        words=words.vector(run.pk, words.searchable(facts, body)),
        **{name: getattr(event, name) for name in AS_REPORTED},
    )


def _json_number(value: float | str) -> float | str:
    """Convert NaN and infinities to strings: JSON columns cannot contain them."""
    number = float(value)
    return number if isfinite(number) else str(value)


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


USUAL = ("good", "bad", "interesting", "reward hacking", "off task", "truncated thought")
"""Labels suggested until a run has its own."""


@transaction.atomic
def note_add(user: Person, episode: Episode, body: documents.NoteBody) -> EpisodeNote:
    """Add a label or note to an episode, or to the turn `turn`. Raises PermissionDenied, ConfigError (turn)."""
    if not isinstance(user, User) or not can_edit(user, episode.run.project):
        raise PermissionDenied(f"you do not have write access to the project {episode.run.project.slug}")
    if body.turn is not None and body.turn > len(episode_document(episode).get("turns", [])):
        raise ConfigError({"turn": f"this episode has no turn {body.turn}"})
    values = body.model_dump()
    note = EpisodeNote.objects.create(episode=episode, author=user, **values)
    audit_note(
        user, episode.run.project, "episode.note", str(episode.pk), run=episode.run_id, note=note.pk, **values
    )
    return note


@transaction.atomic
def note_remove(user: Person, note: EpisodeNote) -> None:
    """Delete a note; allowed for its author and owners of the project. Raises PermissionDenied."""
    project = note.episode.run.project
    if not (is_owner(user, project) or (note.author_id == user.pk and can_edit(user, project))):
        raise PermissionDenied("only its author and owners of the project may remove a note")
    details = {"run": note.episode.run_id, "note": note.pk, "label": note.label, "text": note.text}
    note.delete()
    audit_note(user, project, "episode.note_remove", str(note.episode_id), **details)


def note_get(episode: Episode, pk: int) -> EpisodeNote:
    """Return one note of the episode. Raises Http404."""
    note = EpisodeNote.objects.filter(episode=episode, pk=pk).select_related("episode__run__project").first()
    if note is None:
        raise Http404(f"episode {episode.pk} has no note {pk}")
    return note


def notes_list(episode: Episode) -> QuerySet[EpisodeNote]:
    """Oldest first."""
    return EpisodeNote.objects.filter(episode=episode).select_related("author").order_by("pk")


def note_document(note: EpisodeNote) -> documents.EpisodeNote:
    """Return the document of a note."""
    facts = {name: getattr(note, name) for name in ("turn", "label", "text", "created_at")}
    return documents.EpisodeNote(id=note.pk, episode=note.episode_id, author=note.author.username, **facts)


def labels_of(run: Run) -> list[str]:
    """Return the run's labels, most used first."""
    used = EpisodeNote.objects.filter(episode__run=run).exclude(label="").values_list("label", flat=True)
    counts = Counter(used[:5000])
    return sorted(counts, key=lambda label: (-counts[label], label))
