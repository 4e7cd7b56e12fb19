"""Estimates in the REST API."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from training_core.config.effects.unused import unused_settings
from training_core.errors import ConfigError
from webapp.api.schema import JSON
from webapp.experiments.bodies import CONFIG_KEYS, body_of, config_of
from webapp.experiments.estimates import LONGEST_PROMPT, appraisal_document, appraise
from webapp.runs.permitted import check_runs_visible


class Estimates(APIView):
    """What an experiment takes."""

    @extend_schema(request=JSON, responses={200: JSON, 400: JSON})
    def post(self, request: Request) -> Response:
        """Devices, memory (bytes) and volume of {"preset", "overrides"} or {"config"}, against the cluster as it is now;
        "prompt_tokens" is the length that prompts are taken to have. "unused" lists settings without effect. Nothing is created.
        """
        body = body_of(request, CONFIG_KEYS | {"prompt_tokens"})
        prompt = body.get("prompt_tokens")
        if prompt is not None and not (type(prompt) is int and 1 <= prompt <= LONGEST_PROMPT):
            raise ConfigError({"prompt_tokens": f"give a whole number from 1 to {LONGEST_PROMPT}"})
        config = config_of(body)
        check_runs_visible(request.user, config)  # its models are read
        unused = [{"path": each.path, "why": each.why} for each in unused_settings(config)]
        return Response(appraisal_document(appraise(config, prompt)) | {"unused": unused})
