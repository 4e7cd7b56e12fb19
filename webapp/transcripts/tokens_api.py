"""Tokens and boards of episodes in the REST API, in pages."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.api.queries import number, text
from webapp.api.schema import JSON, parameter
from webapp.transcripts.selectors import episode_get, turns_read
from webapp.transcripts.tokens import MOST, boards_read, tokens_read

BOARDS = 500


class AnswerTokens(APIView):
    """The tokens of one response."""

    @extend_schema(
        parameters=[
            parameter("candidate", int, "number of the candidate, from 1; the executed one by default"),
            parameter("from", int, "first token, from 0"),
            parameter("limit", int, f"number of tokens, {MOST} by default and at most"),
        ],
        responses=JSON,
    )
    def get(self, request: Request, pk: int, turn: int) -> Response:
        """Return token ids, texts, logprobs, versions, and the update's ratios, entropies, mismatch, masks."""
        wanted = number(request, "candidate", 1, least=1) - 1 if text(request, "candidate") else None
        first, most = number(request, "from", 0), min(number(request, "limit", MOST, least=1), MOST)
        return Response(tokens_read(episode_get(request.user, pk), turn, wanted, first, most))


class EpisodeBoards(APIView):
    """Boards of an episode, for replay."""

    @extend_schema(
        parameters=[
            parameter("from", int, "first turn, from 1"),
            parameter("limit", int, f"number of turns, {BOARDS} by default and at most"),
        ],
        responses=JSON,
    )
    def get(self, request: Request, pk: int) -> Response:
        """Return {"count", "boards": the state before each turn or null, "final_board": after the last turn, if it is in the range}."""
        first, most = (
            number(request, "from", 1, least=1),
            min(number(request, "limit", BOARDS, least=1), BOARDS),
        )
        return Response(boards_read(turns_read(episode_get(request.user, pk), first - 1, most)))
