"""Transcripts in the REST API: episodes, their turns and tokens, notes, probes, queries and saved queries."""

from contextlib import nullcontext
from typing import Annotated, Any, Literal

from django.http.response import HttpResponseBase
from pydantic import Field
from rest_framework.exceptions import ParseError
from rest_framework.pagination import Cursor
from rest_framework.request import Request

from troupe_client.documents import transcripts as documents
from troupe_client.documents.base import Page
from webapp.accounts.permissions import Person
from webapp.accounts.selectors import project_get
from webapp.agents.rewards import return_label
from webapp.api.pagination import WRONG_CURSOR, NewestFirst, OrderedPages, paged
from webapp.api.routes import Routes
from webapp.common.query_language import LONGEST
from webapp.common.searches import search_limited
from webapp.runs.models import Run
from webapp.runs.selectors import run_get
from webapp.transcripts import services
from webapp.transcripts.bodies import episode_document, turns_read
from webapp.transcripts.candidates import MOST_TOKENS, boards_read, group_read, tokens_read, tree_read
from webapp.transcripts.curve import curve_read
from webapp.transcripts.episodes import (
    EXAMINED,
    counts_read,
    episode_facts,
    episode_get,
    episodes_list,
    floor_of,
    is_examined,
)
from webapp.transcripts.export import episodes_export, table_export
from webapp.transcripts.models import Episode
from webapp.transcripts.probes import difference, probe_documents
from webapp.transcripts.query import SAVED, query_complete, query_document, query_save
from webapp.transcripts.table import table_columns, table_row, table_sort
from webapp.transcripts.words import terms, words_hits

routes = Routes()
MOST_TURNS, MOST_BOARDS = 1000, 500
Filters = documents.EpisodeFilters
Columns = Annotated[str, Field(description="Columns, e.g. iteration,success,planner.reward.")]
Sort = Annotated[str, Field(description="A column; -NAME: descending.")]
FirstTurn = Annotated[int, Field(ge=1, lt=2**31, alias="from", description="First turn, from 1.")]
Limit = Annotated[int, Field(ge=1)]


class EpisodePages(NewestFirst):
    """Episodes by arrival. With filters, a page examines at most EXAMINED episodes; `next` continues with older ones."""

    ordering = ("-id",)
    floor: int | None = None
    """The last examined episode, if there are older ones."""

    def older_than(self, request: Request) -> int | None:
        """Return the id from which a page continues; None for the first page. Raises ParseError for an invalid cursor."""
        cursor = self.decode_cursor(request)
        if cursor is None or cursor.position is None:
            return None
        try:
            return int(cursor.position)
        except ValueError as error:
            raise ParseError(WRONG_CURSOR) from error

    def is_backwards(self, request: Request) -> bool:
        """Whether the page is the previous one of another."""
        cursor = self.decode_cursor(request)
        return cursor is not None and cursor.reverse

    def get_next_link(self) -> str | None:
        """Return the address of the next page."""
        if self.has_next or self.floor is None:
            return super().get_next_link()
        return self.encode_cursor(Cursor(offset=0, reverse=False, position=self.floor))


@routes.get("runs/<str:run_id>/episodes/", name="run-episodes", operation_id="v1_runs_episodes_list")
def episodes(user: Person, request: Request, run_id: str, query: Filters) -> Page[documents.Episode]:
    """Return the matching episodes of a run, newest first."""
    run, filters = run_get(user, run_id), query.values()
    with search_limited() if filters else nullcontext():
        page: Page[documents.Episode] = _episodes(request, run, query, filters)
        return page


def _episodes(request: Request, run: Run, query: Filters, filters: dict[str, Any]) -> Any:
    if terms(query.q):
        filters["hits"] = words_hits(run, query.q)
    pages: Any = EpisodePages()
    if not is_examined(filters) or pages.is_backwards(request):
        rows = pages.paginate_queryset(episodes_list(run, filters), request)
    else:
        before = pages.older_than(request)
        examined = Episode.objects.of_run(run).newest(EXAMINED, before)
        rows = pages.paginate_queryset(episodes_list(run, filters, examined), request)
        pages.floor = None if pages.has_next else floor_of(run, before)
    facts = [documents.Episode(**episode_facts(row)) for row in rows]
    return pages.get_paginated_response(facts).data


@routes.get("episodes/<int:pk>/", name="episode")
def episode(user: Person, pk: int) -> documents.EpisodeTranscript:
    """Return facts, turns, candidates, values of updates."""
    row = episode_get(user, pk)
    facts = episode_facts(row) | {"return_label": return_label(row.run.config)}
    return documents.EpisodeTranscript.model_construct(**facts, **episode_document(row))


@routes.get("runs/<str:run_id>/episodes/export/", name="episodes-export", media_type="application/x-ndjson")
def export(user: Person, request: Request, run_id: str, query: Filters) -> HttpResponseBase:
    """Return one episode per line, newest first: facts, turns, candidates with tokens, values of updates, notes."""
    return episodes_export(request._request, run_get(user, run_id), query.values())


@routes.get("runs/<str:run_id>/episodes/complete/", name="episodes-complete")
def completion(
    user: Person,
    run_id: str,
    text: Annotated[str, Field(description="The query up to the caret.")] = "",
) -> documents.EpisodeQueryCompletion:
    """Return completions of a query."""
    return query_complete(run_get(user, run_id), text[:LONGEST])


@routes.get("runs/<str:run_id>/episodes/curve/", name="episodes-curve")
def curve(
    user: Person,
    run_id: str,
    query_text: Annotated[str, Field(alias="query", description="The query language.")] = "",
    base: Annotated[
        str,
        Field(description="The episodes of which the share is taken; default: all stored ones."),
    ] = "",
) -> documents.CountedEpisodeCurve:
    """Return the share of stored episodes that match a query, over training."""
    run = run_get(user, run_id)
    return documents.CountedEpisodeCurve(**dict(curve_read(run, query_text, base)), counts=counts_read(run))


@routes.get("runs/<str:run_id>/episodes/table/", name="episodes-table", paging=("limit", "offset"))
def table(
    user: Person, request: Request, run_id: str, query: Filters, columns: Columns = "", sort: Sort = ""
) -> Page[documents.EpisodeRow]:
    """Return episodes in chosen columns, the newest first or by `sort`."""
    run = run_get(user, run_id)
    chosen = table_columns(run, columns)
    rows = table_sort(run, episodes_list(run, query.values()), sort)

    def listed(page: list[Episode]) -> list[documents.EpisodeRow]:
        return [documents.EpisodeRow(**table_row(row, chosen)) for row in page]

    return paged(request, rows, OrderedPages, listed)  # type: ignore[no-any-return]


@routes.get("runs/<str:run_id>/episodes/table/export/", name="episodes-table-export", media_type="text/csv")
def table_file(
    user: Person,
    request: Request,
    run_id: str,
    query: Filters,
    columns: Columns = "",
    sort: Sort = "",
    form: Annotated[Literal["csv", "jsonl"], Field(alias="as")] = "csv",
) -> HttpResponseBase:
    """Return one row per episode, the newest first or by `sort`."""
    return table_export(request._request, run_get(user, run_id), query.values(), columns, sort, form)


@routes.get("runs/<str:run_id>/probes/", name="run-probes")
def probes(
    user: Person,
    run_id: str,
    kind: Annotated[Literal["eval", "eval_sampled"], Field(description="eval is greedy.")] = "eval",
    task: Annotated[str, Field(description="Only this task.")] = "",
    page: Annotated[int, Field(ge=0, description="Zero-based; a page has twelve tasks.")] = 0,
) -> documents.Probes:
    """Return the episodes of tasks at every evaluation."""
    return probe_documents(run_get(user, run_id), kind, min(page, 10_000), task)


@routes.get("episodes/<int:pk>/diff/<int:other>/", name="episode-diff")
def episode_difference(user: Person, pk: int, other: int) -> documents.EpisodeDifference:
    """Return the differences between two episodes, turn by turn."""
    turns = difference(episode_get(user, pk), episode_get(user, other))
    return documents.EpisodeDifference.model_validate({"turns": turns})


@routes.get("episodes/<int:pk>/tree/", name="episode-tree")
def tree(user: Person, pk: int, first: FirstTurn = 1, limit: Limit = MOST_TURNS) -> documents.EpisodeTree:
    """Return the turns of an episode with the rewards and advantages of their candidates, 1000 at most."""
    turns, count = tree_read(episode_get(user, pk), first, min(limit, MOST_TURNS))
    return documents.EpisodeTree.model_validate({"count": count, "turns": turns})


@routes.get("episodes/<int:pk>/groups/<int:turn>/", name="episode-group")
def group(user: Person, pk: int, turn: int) -> documents.EpisodeGroup:
    """Return the candidates of a turn: prompt and texts, rewards with mean and unbiased std, advantages, the executed one."""
    return documents.EpisodeGroup.model_validate(group_read(episode_get(user, pk), turn))


@routes.get("episodes/<int:pk>/turns/<int:turn>/tokens/", name="answer-tokens")
def tokens(
    user: Person,
    pk: int,
    turn: int,
    candidate: Annotated[
        int | None, Field(ge=1, description="Number of the candidate, from 1; default: the executed one.")
    ] = None,
    first: Annotated[int, Field(ge=0, alias="from", description="First token, from 0.")] = 0,
    limit: Limit = MOST_TOKENS,
) -> documents.AnswerTokens:
    """Return token ids, texts, logprobs, versions, and the update's ratios, entropies, mismatch, masks; 2000 tokens at most."""
    index = None if candidate is None else candidate - 1
    recorded = tokens_read(episode_get(user, pk), turn, index, first, min(limit, MOST_TOKENS))
    return documents.AnswerTokens.model_construct(**recorded)


@routes.get("episodes/<int:pk>/boards/", name="episode-boards")
def boards(
    user: Person, pk: int, first: FirstTurn = 1, limit: Limit = MOST_BOARDS
) -> documents.EpisodeBoards:
    """Return the boards of an episode for replay, 500 at most."""
    piece = turns_read(episode_get(user, pk), first - 1, min(limit, MOST_BOARDS))
    return documents.EpisodeBoards.model_construct(**boards_read(piece))


@routes.get("episodes/<int:pk>/notes/", name="episode-notes")
def notes(user: Person, pk: int) -> list[documents.EpisodeNote]:
    """Return the labels and notes of users, oldest first."""
    return [services.note_document(note) for note in services.notes_list(episode_get(user, pk))]


@routes.post("episodes/<int:pk>/notes/", status=201)
def note_create(user: Person, pk: int, body: documents.NoteBody) -> documents.EpisodeNote:
    """Create a note and return it."""
    return services.note_document(services.note_add(user, episode_get(user, pk), body))


@routes.post("episodes/<int:pk>/notes/<int:note>/remove/", name="episode-note-remove")
def note_remove(user: Person, pk: int, note: int) -> documents.EpisodeNote:
    """Remove a note and return it."""
    chosen = services.note_get(episode_get(user, pk), note)
    document = services.note_document(chosen)
    services.note_remove(user, chosen)
    return document


@routes.get("queries/", name="queries", operation_id="v1_queries_list")
def queries(user: Person) -> list[documents.SavedQuery]:
    """Return the caller's own queries and those of their projects, by name."""
    return [query_document(saved) for saved in SAVED.visible(user)]


@routes.post("queries/", status=201)
def query_create(user: Person, body: documents.SavedQueryBody) -> documents.SavedQuery:
    """Save a query; without a project it belongs to the caller."""
    project = project_get(user, body.project) if body.project else None
    saved = query_save(user, body.name, body.query, project, replace=body.replace)
    return query_document(saved)


@routes.get("queries/<int:pk>/", name="query")
def query(user: Person, pk: int) -> documents.SavedQuery:
    """Return a query."""
    return query_document(SAVED.get(user, pk))


@routes.delete("queries/<int:pk>/")
def query_delete(user: Person, pk: int) -> documents.SavedQueryDeleted:
    """Delete a query."""
    saved = SAVED.get(user, pk)
    document = documents.SavedQueryDeleted(**dict(query_document(saved)))
    SAVED.remove(user, saved)
    return document
