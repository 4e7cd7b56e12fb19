"""Probes in the REST API."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.api.queries import choice, number, text
from webapp.api.schema import JSON, parameter
from webapp.metrics.arrays import spell
from webapp.runs.selectors import run_get
from webapp.transcripts.probes import KINDS, Frame, difference, strips_read
from webapp.transcripts.selectors import episode_get


class RunProbes(APIView):
    """Episodes of tasks at every evaluation."""

    @extend_schema(
        parameters=[
            parameter("kind", str, "eval (greedy, the default) or eval_sampled"),
            parameter("task", str, "only this task"),
            parameter("page", int, "zero-based; a page has twelve tasks"),
        ],
        responses=JSON,
    )
    def get(self, request: Request, run_id: str) -> Response:
        """Return {"more", "results": [{"task", "title", "plays": [{"id", "iteration", "outcome", "success", "said"}]}]}."""
        run = run_get(request.user, run_id)
        kind = choice(request, "kind", KINDS) or "eval"
        strips, more = strips_read(run, kind, min(number(request, "page", 0), 10_000), text(request, "task"))
        results = [
            {"task": strip.task, "title": strip.title, "plays": [_play(frame) for frame in strip.frames]}
            for strip in strips
        ]
        return Response({"more": more, "results": results})


def _play(frame: Frame) -> dict[str, object]:
    episode = frame.episode
    return {
        "id": episode.pk,
        "iteration": episode.iteration,
        "outcome": episode.outcome,
        "success": episode.success,
        "failed": episode.failed,
        "return": spell(episode.episode_return),
        "said": [{"role": role, "text": text} for role, text in frame.lines],
    }


class EpisodeDifference(APIView):
    """Differences between two episodes."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, pk: int, other: int) -> Response:
        """Return {"turns": [{"number", "role", "same", "saw": parts, "said": parts}]}; parts: {"op": equal|delete|insert, "text"}."""
        return Response(
            {"turns": difference(episode_get(request.user, pk), episode_get(request.user, other))}
        )
