"""Groups and trees of episodes in the REST API."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.api.queries import number
from webapp.api.schema import JSON, parameter
from webapp.transcripts.groups import group_read, tree_read
from webapp.transcripts.selectors import episode_get

MOST = 1000


class EpisodeTree(APIView):
    """The tree of an episode's turns."""

    @extend_schema(
        parameters=[
            parameter("from", int, "first turn, from 1"),
            parameter("limit", int, f"number of turns, {MOST} by default and at most"),
        ],
        responses=JSON,
    )
    def get(self, request: Request, pk: int) -> Response:
        """Return {"count", "turns"}; a turn has its number, team turn, role, policy, index of the executed candidate (from 0),
        whether all rewards are equal, and of each candidate reward, advantage and count of tokens.
        """
        first, most = number(request, "from", 1, least=1), min(number(request, "limit", MOST, least=1), MOST)
        turns, count = tree_read(episode_get(request.user, pk), first, most)
        return Response({"count": count, "turns": turns})


class EpisodeGroup(APIView):
    """The candidates of one turn."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, pk: int, turn: int) -> Response:
        """Return their prompt and texts, rewards with mean and unbiased std, advantages, and the executed one."""
        return Response(group_read(episode_get(request.user, pk), turn))
