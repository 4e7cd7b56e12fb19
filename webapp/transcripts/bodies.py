"""Storage format of episode bodies and annotations by updates: in pieces, so that a page of a long episode reads only its own
piece.

A body is a sequence of zstd frames, each a line of JSON {"turns": [...]} with PIECE turns; the first and the last also have
"final_board", the first "task_number". `EpisodeBody.frames` has the turns and bytes of each; it is empty for bodies in the older
format, a single frame.
An annotation has the same format with the notes of PIECE turns per frame, in order of their turns; the first also has "stages".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import zstandard
from django.db.models import BinaryField, Case, F, QuerySet, When
from django.db.models.functions import Length, Substr
from django.http import Http404

from webapp.transcripts.models import Episode, EpisodeAnnotation, EpisodeBody

Packed = bytes | memoryview
PIECE = 50
"""Number of turns in a frame, and in one piece of a page."""
SHORT = 1 << 18
"""Maximum bytes that are read whole, which saves a query."""
_SHORT = Case(When(length__lte=SHORT, then=F("data")), output_field=BinaryField(null=True))


@dataclass(frozen=True)
class Piece:
    """Consecutive turns of an episode."""

    turns: list[dict[str, Any]]
    first: int
    """Index of the first of them, from 0."""
    count: int
    """Number of turns of the whole episode."""
    final_board: dict[str, Any] | None


def body_packed(document: Mapping[str, Any]) -> tuple[bytes, list[list[int]]]:
    """Return a body in its storage format, and its `frames`."""
    turns = document["turns"]
    parts = [turns[first : first + PIECE] for first in range(0, len(turns), PIECE)] or [[]]
    frames = []
    for index, part in enumerate(parts):
        board = {"final_board": document["final_board"]} if index in (0, len(parts) - 1) else {}
        known = index == 0 and document.get("task_number") is not None
        number = {"task_number": document["task_number"]} if known else {}
        frames.append(zstandard.compress(orjson.dumps({"turns": part, **board, **number}) + b"\n", level=3))
    return b"".join(frames), [[len(part), len(data)] for part, data in zip(parts, frames, strict=True)]


def unpacked(data: bytes | memoryview) -> dict[str, Any]:
    """Return the JSON of a body or of an annotation with any number of frames."""
    reader = zstandard.ZstdDecompressor().stream_reader(bytes(data), read_across_frames=True)
    document: dict[str, Any] = {}
    turns: list[dict[str, Any]] = []
    for line in reader.read().splitlines():
        part = orjson.loads(line)
        turns += part["turns"]
        document |= part
    return document | {"turns": turns}


def annotation_packed(document: Mapping[str, Any]) -> tuple[bytes, list[list[int]]]:
    """Return an annotation in its storage format, and its `frames`: [first turn, last turn, bytes]."""
    notes = sorted(document["turns"], key=lambda note: note["turn"])
    parts = [notes[first : first + PIECE] for first in range(0, len(notes), PIECE)] or [[]]
    data, frames = [], []
    for index, part in enumerate(parts):
        stages = {} if index else {"stages": document["stages"]}
        data.append(zstandard.compress(orjson.dumps({"turns": part, **stages}) + b"\n", level=3))
        frames.append([part[0]["turn"], part[-1]["turn"], len(data[-1])] if part else [0, -1, len(data[-1])])
    return b"".join(data), frames


def annotations_read(episode: Episode, first: int, end: int) -> list[dict[str, Any]]:
    """Return the annotations of turns first … end - 1, oldest first; may include notes of adjacent turns."""
    learnt = EpisodeAnnotation.objects.filter(
        run=episode.run_id, episode_name=episode.name, attempt=episode.attempt
    )
    annotations = []
    rows = (
        learnt.order_by("pk")
        .annotate(length=Length("data"), short=_SHORT)
        .values_list("pk", "frames", "short")
    )
    for pk, frames, short in rows:
        start = sum(size for _, most, size in frames if most < first)
        length = sum(size for least, most, size in frames if most >= first and least < end)
        data = _part(learnt.filter(pk=pk), short, frames, start, length)
        if data:
            annotations.append(unpacked(data))
    return annotations


def piece_read(episode: Episode, first: int, most: int) -> Piece:
    """Return at most `most` turns from index `first` (from 0), without annotations; none if the body was deleted."""
    body = EpisodeBody.objects.filter(episode=episode)
    row = body.annotate(length=Length("data"), short=_SHORT).values_list("frames", "short").first()
    if row is None:
        return Piece([], 0, 0, None)
    frames, short = row
    begin, start, length = _span(frames, first, first + most)
    packed = _part(body, short, frames, start, length)
    document = unpacked(packed) if packed else {}
    turns = document.get("turns", [])
    count = sum(turns_ for turns_, _ in frames) if frames else len(turns)
    shown = turns[max(0, first - begin) : first - begin + most]
    return Piece(shown, first, count, document.get("final_board"))


def _part(
    rows: QuerySet[Any], short: Packed | None, frames: Sequence[Any], start: int, length: int
) -> Packed | None:
    """Return these bytes of a row's data, of `short` if that was read, otherwise by a query; all of them without frames."""
    if short is not None:
        return bytes(short)[start : start + length] if frames else short
    part = Substr("data", start + 1, length, output_field=BinaryField()) if frames else F("data")
    packed: Packed | None = rows.annotate(part=part).values_list("part", flat=True).first()
    return packed


def _span(frames: Sequence[Sequence[int]], first: int, end: int) -> tuple[int, int, int]:
    """Return (index of the first turn, first byte, bytes) of the frames with turns first … end - 1."""
    turn = offset = 0
    begin, start, stop = 0, 0, 0
    for turns, size in frames:
        if turn <= first:
            begin, start = turn, offset
        if turn < end:
            stop = offset + size
        turn, offset = turn + turns, offset + size
    return begin, start, max(0, stop - start)


PER_CANDIDATE = ("ratios", "entropies", "training_logprobs", "masks")
"""Values of an annotation by candidate, besides advantages."""


def episode_document(episode: Episode) -> dict[str, Any]:
    """Return the body with annotations merged into its candidates; {} if the body was deleted."""
    return documents_read([episode])[episode.pk]


def documents_read(episodes: Sequence[Episode]) -> dict[int, dict[str, Any]]:
    """Return `episode_document` of several episodes of one run, by id."""
    documents: dict[int, dict[str, Any]] = {episode.pk: {} for episode in episodes}
    bodies = EpisodeBody.objects.filter(episode__in=list(documents))
    for pk, data in bodies.values_list("episode_id", "data"):
        documents[pk] = unpacked(data)
    by_name = {(episode.name, episode.attempt): documents[episode.pk] for episode in episodes}
    learnt = EpisodeAnnotation.objects.filter(
        run_id__in={episode.run_id for episode in episodes}, episode_name__in=[name for name, _ in by_name]
    )
    for note in learnt.order_by("pk"):
        if document := by_name.get((note.episode_name, note.attempt)):
            _annotate(document, unpacked(note.data))
    return documents


def turns_read(episode: Episode, first: int, most: int) -> Piece:
    """Return at most `most` turns from index `first` (from 0) with annotations; reads only the needed piece of a long episode."""
    piece = piece_read(episode, first, most)
    for note in annotations_read(episode, first, first + len(piece.turns)):
        _annotate({"turns": piece.turns}, note, piece.first)
    return piece


def turn_get(episode: Episode, number: int) -> dict[str, Any]:
    """Return turn `number` (from 1) with annotations. Raises Http404 if there is none, or its body was deleted."""
    turns = turns_read(episode, number - 1, 1).turns if number >= 1 else []
    if not turns:
        raise Http404(f"episode {episode.pk} has no stored turn {number}")
    return turns[0]


def _annotate(document: dict[str, Any], note: Mapping[str, Any], first: int = 0) -> None:
    """Ignores a note on a missing turn or candidate: it comes from a damaged report, or belongs to another piece.

    `first`: index of the document's first turn in its episode.
    """
    document["stages"] = {**document.get("stages", {}), **note.get("stages", {})}
    turns = document["turns"]
    for learnt in note["turns"]:
        if not 0 <= learnt["turn"] - first < len(turns):
            continue
        candidates = turns[learnt["turn"] - first]["candidates"]
        for index, candidate in enumerate(candidates):
            if index < len(learnt["advantages"]):
                candidate["advantage"] = learnt["advantages"][index]
            for name in PER_CANDIDATE:
                if index < len(learnt.get(name, [])):
                    candidate[name] = learnt[name][index]
