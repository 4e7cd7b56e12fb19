"""Templates in the REST API."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from training_core.config.files import read_preset
from training_core.errors import ConfigError
from webapp.api.schema import JSON
from webapp.experiments.bodies import body_of, project_of, provenance_of
from webapp.experiments.forms import draft_from_run
from webapp.experiments.services import template_delete, template_save
from webapp.experiments.template_selectors import template_document, template_get, templates_visible
from webapp.runs.selectors import run_get
from webapp.runs.serializers import RunSerializer
from webapp.scheduling.services import run_create

SAVE_KEYS = {"name", "description", "preset", "overrides", "run", "project", "replace"}
LAUNCH_KEYS = {"overrides", "name", "project", "tags", "provenance"}


class Templates(APIView):
    """Named presets with changed fields."""

    @extend_schema(operation_id="v1_templates_list", responses=JSON)
    def get(self, request: Request) -> Response:
        """Return the templates of the caller's projects, by name."""
        return Response(
            {"results": [template_document(template) for template in templates_visible(request.user)]}
        )

    @extend_schema(request=JSON, responses={201: JSON, 400: JSON})
    def post(self, request: Request) -> Response:
        """Save {"name", "description", "preset", "overrides", "project", "replace"}, or the config of {"run": id}."""
        body = body_of(request, SAVE_KEYS)
        preset, overrides = self._source(request, body)
        template = template_save(
            request.user,
            project_of(request.user, body.get("project", "")),
            _text(body, "name"),
            preset,
            overrides,
            _text(body, "description"),
            replace=body.get("replace") is True,
        )
        return Response(template_document(template), status=201)

    def _source(self, request: Request, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        if ("run" in body) == ("preset" in body):
            raise ConfigError({"preset": "give either preset (with overrides) or run"})
        if "run" in body:
            run = run_get(request.user, _text(body, "run"))
            draft = draft_from_run(run.preset, run.config)
            return draft.preset, draft.overrides
        return _text(body, "preset"), _overrides(body)


class TemplateDetail(APIView):
    """One template."""

    @extend_schema(responses=JSON)
    def get(self, request: Request, pk: int) -> Response:
        """Return preset and overrides."""
        return Response(template_document(template_get(request.user, pk)))

    @extend_schema(responses=JSON)
    def delete(self, request: Request, pk: int) -> Response:
        """Delete the template; runs that started from it stay."""
        template = template_get(request.user, pk)
        template_delete(request.user, template)
        return Response({"id": pk, "name": template.name, "deleted": True})


class TemplateLaunch(APIView):
    """A run that starts from a template."""

    @extend_schema(request=JSON, responses={201: JSON, 400: JSON})
    def post(self, request: Request, pk: int) -> Response:
        """Launch a run with further {"overrides", "name", "project", "tags"}; the project defaults to the template's."""
        template = template_get(request.user, pk)
        body = body_of(request, LAUNCH_KEYS)
        tags = body.get("tags", [])
        if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            raise ConfigError({"tags": "give a list of words"})
        project = project_of(request.user, body.get("project") or template.project.slug)
        overrides = template.overrides | _overrides(body)
        tree = read_preset(template.preset)
        name = _text(body, "name") or str(overrides.get("run.name") or template.name)
        launched = {"via": f"template {template.name}"} | provenance_of(body)
        run = run_create(request.user, project, tree, template.preset, overrides, name, tags, launched)
        return Response(RunSerializer(run_get(request.user, run.pk)).data, status=201)


def _text(body: dict[str, Any], key: str) -> str:
    value = body.get(key, "")
    if not isinstance(value, str):
        raise ConfigError({key: "give text"})
    return value


def _overrides(body: dict[str, Any]) -> dict[str, Any]:
    overrides = body.get("overrides", {})
    if not isinstance(overrides, dict):
        raise ConfigError({"overrides": "give an object: field path to value"})
    return overrides
