"""Findings and channels in the REST API."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ParseError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.accounts.selectors import project_get
from webapp.api.queries import choice
from webapp.health import notifying, services
from webapp.health.channel_kinds import ChannelRefused
from webapp.health.forking import finding_fork
from webapp.health.models import Channel, Finding
from webapp.health.selectors import channel_get, channels_list, finding_document, finding_get, findings_list
from webapp.runs.selectors import run_get
from webapp.runs.serializers import RunSerializer

JSON = OpenApiTypes.OBJECT


class ChannelSerializer(serializers.Serializer[Any]):
    """The fields of a new channel."""

    name = serializers.CharField(max_length=80)
    address = serializers.CharField(max_length=2000, help_text="An Apprise URL; it is not shown later.")


class Findings(APIView):
    """Health findings of a run."""

    @extend_schema(
        parameters=[OpenApiParameter("state", str, description="open, resolved or dismissed")], responses=JSON
    )
    def get(self, request: Request, run_id: str) -> Response:
        """Return findings, open ones first, with evidence, cause and remedy."""
        run = run_get(request.user, run_id)
        return Response({"results": findings_list(run, choice(request, "state", Finding.State.values))})


class FindingAct(APIView):
    """Actions on a finding: dismiss or reopen."""

    act = "dismiss"

    @extend_schema(request=None, responses=JSON)
    def post(self, request: Request, run_id: str, pk: int) -> Response:
        """Return the updated finding."""
        acts = {"dismiss": services.finding_dismiss, "reopen": services.finding_reopen}
        return Response(finding_document(acts[self.act](request.user, finding_get(request.user, run_id, pk))))


class FindingForkSerializer(serializers.Serializer[Any]):
    """The changes of the fork."""

    overrides = serializers.DictField(
        required=False,
        help_text="Dotted field paths to values; default: the edits of the finding's rule.",
    )

    def to_internal_value(self, data: Any) -> Any:
        """Raises ValidationError for unknown keys: a typing error must not launch something else."""
        unknown = set(data) - set(self.fields) if isinstance(data, dict) else set()
        if unknown:
            raise serializers.ValidationError({key: ["there is no such field"] for key in sorted(unknown)})
        return super().to_internal_value(data)


class FindingFork(APIView):
    """A fork from a checkpoint before the problem."""

    @extend_schema(request=FindingForkSerializer, responses={201: JSON, 400: JSON, 409: JSON})
    def post(self, request: Request, run_id: str, pk: int) -> Response:
        """Fork the run at its last good (or best) checkpoint, once per finding."""
        wanted = FindingForkSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        finding = finding_get(request.user, run_id, pk)
        settings = services.settings_of(finding.run)
        run = finding_fork(request.user, finding, settings, wanted.validated_data.get("overrides"))
        return Response(RunSerializer(run_get(request.user, run.pk)).data, status=201)


class Channels(APIView):
    """The notification channels of a project."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, slug: str) -> Response:
        """Return the channels without their addresses."""
        return Response({"results": [_channel(each) for each in channels_list(request.user, slug)]})

    @extend_schema(request=ChannelSerializer, responses={201: JSON, 400: JSON})
    def post(self, request: Request, slug: str) -> Response:
        """Create a channel; owners only."""
        wanted = ChannelSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        project = project_get(request.user, slug)
        try:
            made = notifying.channel_make(request.user, project, **wanted.validated_data)
        except ChannelRefused as error:
            raise ParseError(str(error)) from error
        return Response(_channel(made), status=201)


class ChannelAct(APIView):
    """Actions on a channel: try or remove."""

    act = "try"

    @extend_schema(request=None, responses=JSON)
    def post(self, request: Request, slug: str, pk: int) -> Response:
        """try: send a message now. remove: delete the channel. Owners only."""
        channel = channel_get(request.user, slug, pk)
        document = _channel(channel)
        if self.act == "remove":
            notifying.channel_remove(request.user, channel)
            return Response(document)
        taken = notifying.channel_try(request.user, channel)
        return Response(_channel(channel) | {"taken": taken})


def _channel(channel: Channel) -> dict[str, Any]:
    return {
        "id": channel.pk,
        "name": channel.name,
        "kind": channel.kind,
        "said": notifying.channel_said(channel),
    }
