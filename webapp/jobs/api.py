"""Short jobs in the REST API."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.api.schema import JSON
from webapp.jobs.models import Job
from webapp.jobs.selectors import job_document, job_get, jobs_visible
from webapp.jobs.services import job_cancel, job_follow, job_say
from webapp.jobs.starting import job_start

SHOWN = 100


class JobSerializer(serializers.Serializer[Any]):
    """The fields of a new job; the relevant ones depend on the kind."""

    kind = serializers.ChoiceField(choices=Job.Kind.choices)
    project = serializers.CharField(
        required=False, help_text="check, dry_run, prepare: slug; default: your oldest project"
    )
    preset = serializers.CharField(required=False, help_text="check, dry_run, prepare: a preset's name")
    config = serializers.DictField(
        required=False, help_text="check, dry_run, prepare: a config tree in place of a preset"
    )
    run = serializers.CharField(required=False, help_text="id of the run with the checkpoint")
    checkpoint = serializers.CharField(
        required=False,
        allow_blank=True,
        help_text="path, name, iteration, latest, best, or base for the base models; default: the latest",
    )
    other_run = serializers.CharField(required=False, help_text="match: run of the second checkpoint")
    other = serializers.CharField(required=False, allow_blank=True, help_text="match: the second checkpoint")
    overrides = serializers.DictField(required=False, help_text="config fields by dotted path")
    parameters = serializers.DictField(
        required=False, help_text="episodes, kind, first, swapped, roles, task"
    )


class SaySerializer(serializers.Serializer[Any]):
    """A user's message in a conversation."""

    turn = serializers.IntegerField(min_value=0)
    text = serializers.CharField(allow_blank=True, trim_whitespace=False)


class Jobs(APIView):
    """Short jobs: checks, dry runs, evaluations, conversations, matches, preparation of base models."""

    @extend_schema(operation_id="v1_jobs_list", responses=JSON)
    def get(self, request: Request) -> Response:
        """Return the latest hundred, newest first."""
        return Response({"results": [job_document(job) for job in jobs_visible(request.user)[:SHOWN]]})

    @extend_schema(request=JobSerializer, responses={201: JSON, 400: JSON})
    def post(self, request: Request) -> Response:
        """Start one."""
        wanted = JobSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        job = job_start(request.user, wanted.validated_data["kind"], wanted.validated_data)
        return Response(job_document(job_get(request.user, job.pk)), status=201)


class JobDetail(APIView):
    """One short job."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, pk: str) -> Response:
        """Return state, progress, result, episodes, and the current state of a conversation."""
        return Response(job_document(job_follow(job_get(request.user, pk)), whole=True))


class JobCancel(APIView):
    """End a job."""

    @extend_schema(request=None, responses=JSON)
    def post(self, request: Request, pk: str) -> Response:
        """Cancel the job; its finished episodes are kept."""
        return Response(job_document(job_cancel(request.user, job_get(request.user, pk))))


class JobSay(APIView):
    """Messages in a conversation."""

    @extend_schema(request=SaySerializer, responses=JSON)
    def post(self, request: Request, pk: str) -> Response:
        """Send a message; only allowed on the user's turn."""
        words = SaySerializer(data=request.data)
        words.is_valid(raise_exception=True)
        job = job_get(request.user, pk)
        job_say(request.user, job, **words.validated_data)
        return Response(job_document(job))
