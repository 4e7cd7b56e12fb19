"""Export of episodes as JSON Lines, in batches, so that memory does not grow with their number."""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import orjson
from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse

from webapp.common.attachments import attachment
from webapp.metrics.arrays import spell
from webapp.runs.models import Run
from webapp.transcripts.models import Episode, EpisodeNote
from webapp.transcripts.notes import note_document
from webapp.transcripts.selectors import documents_read, episodes_list

AT_ONCE = 50
_LEFT_OUT = ("run", "words", "groups", "cursor")


def export_answer(request: HttpRequest, run: Run, filters: Mapping[str, Any]) -> StreamingHttpResponse:
    """Stream all episodes that match the filters, newest first: facts, turns, candidates with tokens, annotations, notes."""
    episodes_list(run, filters)  # An invalid query raises before the response begins.
    lines: AsyncIterator[bytes] | Iterator[bytes] = _chunks(run, filters)
    if isinstance(request, ASGIRequest):
        lines = _later(run, filters)
    answer = StreamingHttpResponse(lines, content_type="application/x-ndjson")
    answer["Content-Disposition"] = attachment(f"{run.pk}-episodes.jsonl")
    return answer


def _chunks(run: Run, filters: Mapping[str, Any]) -> Iterator[bytes]:
    before: int | None = None
    while True:
        data, before = chunk_read(run, filters, before)
        if data:
            yield data
        if before is None:
            return


async def _later(run: Run, filters: Mapping[str, Any]) -> AsyncIterator[bytes]:
    """Iterate in a thread, without blocking the event loop."""
    before: int | None = None
    while True:
        data, before = await sync_to_async(chunk_read)(run, filters, before)
        if data:
            yield data
        if before is None:
            return


def chunk_read(run: Run, filters: Mapping[str, Any], before: int | None) -> tuple[bytes, int | None]:
    """Return the lines of at most AT_ONCE episodes, and the cursor of the next ones (None after the last)."""
    matching = episodes_list(run, filters)
    episodes = list((matching.filter(pk__lt=before) if before else matching)[:AT_ONCE])
    documents = documents_read(episodes)
    notes: dict[int, list[dict[str, Any]]] = {}
    note_rows = (
        EpisodeNote.objects.filter(episode__in=list(documents)).select_related("author").order_by("pk")
    )
    for note in note_rows:
        notes.setdefault(note.episode_id, []).append(note_document(note))
    lines = [
        orjson.dumps(_facts(run, episode) | documents[episode.pk] | {"notes": notes.get(episode.pk, [])})
        for episode in episodes
    ]
    return b"".join(line + b"\n" for line in lines), episodes[-1].pk if len(episodes) == AT_ONCE else None


def _facts(run: Run, episode: Episode) -> dict[str, Any]:
    names = [field.attname for field in Episode._meta.concrete_fields if field.name not in _LEFT_OUT]
    facts = {name: getattr(episode, name) for name in names}
    return {"run": run.pk, **facts, "episode_return": spell(episode.episode_return)}
