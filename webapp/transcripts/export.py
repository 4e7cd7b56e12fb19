"""Downloads of episodes: transcripts as JSON Lines, the table and the curve as files. Memory does not grow with their number."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from troupe_client.documents.transcripts import EpisodeCurve
from webapp.common.attachments import stream
from webapp.metrics.arrays import spell
from webapp.runs.models import Run
from webapp.transcripts.bodies import documents_read
from webapp.transcripts.episodes import episode_facts, episodes_list
from webapp.transcripts.models import Episode, EpisodeNote
from webapp.transcripts.services import note_document
from webapp.transcripts.table import table_columns, table_row, table_sort
from workers.http import cell_text

AT_ONCE = 50
POINT = ("first", "last", "matching", "of", "share", "low", "high")
HEADER = ("kind", "first_iteration", "last_iteration", *POINT[2:])


def episodes_export(request: HttpRequest, run: Run, filters: Mapping[str, Any]) -> HttpResponseBase:
    """Stream all episodes that match the filters, newest first: facts, turns, candidates with tokens, annotations, notes."""
    episodes_list(run, filters)  # An invalid query raises before the response begins.
    return stream(request, export_parts(run, filters), "application/x-ndjson", f"{run.pk}-episodes.jsonl")


def export_parts(run: Run, filters: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the lines of at most AT_ONCE episodes."""
    matching = episodes_list(run, filters)
    episodes = list(matching[:AT_ONCE])
    while episodes:
        yield _lines(episodes)
        episodes = list(matching.filter(pk__lt=episodes[-1].pk)[:AT_ONCE])


def _lines(episodes: list[Episode]) -> bytes:
    documents = documents_read(episodes)
    notes: dict[int, list[dict[str, Any]]] = {}
    rows = EpisodeNote.objects.filter(episode__in=list(documents)).select_related("author").order_by("pk")
    for row in rows:
        notes.setdefault(row.episode_id, []).append(note_document(row).model_dump(mode="json"))
    return b"".join(
        orjson.dumps(
            episode_facts(episode)
            | {"episode_return": spell(episode.episode_return)}
            | documents[episode.pk]
            | {"notes": notes.get(episode.pk, [])}
        )
        + b"\n"
        for episode in episodes
    )


def table_export(
    request: HttpRequest, run: Run, filters: Mapping[str, Any], columns: str, sort: str, form: str
) -> HttpResponseBase:
    """Stream the table as csv or jsonl. Raises ConfigError."""
    chosen = table_columns(run, columns)
    episodes = table_sort(run, episodes_list(run, filters), sort)
    rows = (table_row(episode, chosen) for episode in episodes.iterator(chunk_size=500))
    name = f"{run.pk}-episodes.{form}"
    if form == "jsonl":
        return stream(request, (orjson.dumps(row) + b"\n" for row in rows), "application/x-ndjson", name)
    words = ["id", "name", *(column.word for column in chosen)]
    return _csv(request, words, ([row[word] for word in words] for row in rows), name)


def curve_export(request: HttpRequest, run: Run, curve: EpisodeCurve) -> HttpResponseBase:
    """Stream the points of a curve as csv."""
    rows = (
        [kind.kind, *(getattr(point, name) for name in POINT)]
        for kind in curve.kinds
        for point in kind.points
    )
    return _csv(request, HEADER, rows, f"{run.pk}-shares.csv")


def _csv(
    request: HttpRequest, header: Iterable[str], rows: Iterable[Iterable[Any]], name: str
) -> HttpResponseBase:
    lines = (_csv_line(row) for part in ([header], rows) for row in part)
    return stream(request, lines, "text/csv; charset=utf-8", name)


def _csv_line(cells: Iterable[Any]) -> bytes:
    """Return one line; cells hold no formulas."""
    text = io.StringIO()
    csv.writer(text).writerow([cell_text(cell) for cell in cells])
    return text.getvalue().encode()
