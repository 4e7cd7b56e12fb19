"""REST API that stops, pauses, resumes and forks runs."""

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework.parsers import FormParser, MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.api.schema import JSON
from webapp.runs.models import RunState
from webapp.runs.selectors import run_get
from webapp.runs.serializers import RunSerializer
from webapp.scheduling.editing import run_resume_edited
from webapp.scheduling.forking import run_fork_named
from webapp.scheduling.managing import run_do
from webapp.scheduling.serializers import ForkSerializer, ResumeSerializer, StopSerializer


class RunAct(APIView):
    """Actions on a run: stop or pause. The body is optional, in JSON or as a form."""

    act = "stop"
    parser_classes = (*APIView.parser_classes, FormParser, MultiPartParser)

    @extend_schema(request=StopSerializer, responses={200: JSON, 409: JSON})
    def post(self, request: Request, run_id: str) -> Response:
        """Return the updated run; 409 if its state does not allow it. `now` does not wait for the current iteration."""
        body = StopSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        with transaction.atomic():
            run_do(request.user, run_get(request.user, run_id), self.act)
            if body.validated_data["now"] and run_get(request.user, run_id).state == RunState.STOPPING:
                run_do(request.user, run_get(request.user, run_id), "end_now")
        return Response(RunSerializer(run_get(request.user, run_id)).data)


class RunResume(APIView):
    """A new attempt, optionally with an edited config."""

    @extend_schema(request=ResumeSerializer, responses={200: JSON, 400: JSON, 409: JSON})
    def post(self, request: Request, run_id: str) -> Response:
        """Return the updated run; 409 if its state does not allow it or `checkpoint` is damaged, 400 with a message per field.

        The default checkpoint is the newest intact one.
        """
        body = ResumeSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        run, data = run_get(request.user, run_id), body.validated_data
        run_resume_edited(request.user, run, data.get("overrides", {}), data.get("checkpoint", ""))
        return Response(RunSerializer(run_get(request.user, run_id)).data)


class Fork(APIView):
    """A new run from a checkpoint."""

    @extend_schema(request=ForkSerializer, responses={201: JSON, 400: JSON, 409: JSON})
    def post(self, request: Request, run_id: str, name: str) -> Response:
        """Launch a run with the parent's config and overrides. `name`: last, best or an iteration."""
        wanted = ForkSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        data = wanted.validated_data
        run = run_fork_named(
            request.user,
            run_id,
            name,
            data.get("overrides"),
            data.get("name", ""),
            data.get("tags", []),
            {"via": "API"} | data.get("provenance", {}),
        )
        return Response(RunSerializer(run_get(request.user, run.pk)).data, status=201)
