"""Teams in the REST API: as facts, as a picture; and resource profiles."""

from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from training_core.config.profiles import profiles_document
from training_core.errors import ConfigError
from webapp.api.schema import JSON
from webapp.experiments.bodies import CONFIG_KEYS, body_of, config_of
from webapp.experiments.team import TeamForm, team_document, team_read
from webapp.experiments.team_picture import team_svg
from webapp.runs.selectors import run_get

KEYS = CONFIG_KEYS | {"run"}


class Teams(APIView):
    """The team of an experiment."""

    @extend_schema(request=JSON, responses={200: JSON, 400: JSON})
    def post(self, request: Request) -> Response:
        """Return turn order, roles and policies of {"preset", "overrides"}, {"config"} or {"run": id}; nothing is created."""
        return Response(team_document(_team(request)))


class TeamPictures(APIView):
    """The picture of a team."""

    @extend_schema(request=JSON, responses={(200, "image/svg+xml"): OpenApiTypes.STR, 400: JSON})
    def post(self, request: Request) -> HttpResponse:
        """Return roles in turn order, a line from each to its policy (dashed: frozen), as SVG."""
        return HttpResponse(team_svg(_team(request)), content_type="image/svg+xml")


class Profiles(APIView):
    """Resource profiles."""

    @extend_schema(request=JSON, responses={200: JSON, 400: JSON})
    def post(self, request: Request) -> Response:
        """Return the devices of each profile, and the overrides that distribute {"preset", "overrides"} or {"config"} over them.

        Only for language models; small networks learn in one process and are rejected.
        """
        return Response(profiles_document(config_of(body_of(request, CONFIG_KEYS))))


def _team(request: Request) -> TeamForm:
    body = body_of(request, KEYS)
    if "run" not in body:
        return team_read(config_of(body).model_dump(mode="json"))
    if len(body) > 1:
        raise ConfigError({"run": "give either a run or a config"})
    run: Any = body["run"]
    return team_read(run_get(request.user, str(run)).config)
