"""Estimates in the REST API."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from training_core.config.effects import unused_settings
from training_core.errors import ConfigError
from webapp.api.schema import JSON
from webapp.experiments.bodies import CONFIG_KEYS, body_of, config_of
from webapp.experiments.estimates import LONGEST_PROMPT, appraisal_document, appraise
from webapp.runs.permitted import check_runs_visible


class Estimates(APIView):
    """Estimates of an experiment's resources."""

    @extend_schema(request=JSON, responses={200: JSON, 400: JSON})
    def post(self, request: Request) -> Response:
        """Return devices, memory (bytes) and volume of {"preset", "overrides"} or {"config"}, compared with the current cluster;
        "prompt_tokens" is the assumed length of prompts. "unused" lists settings without effect. Nothing is created.
        """
        body = body_of(request, CONFIG_KEYS | {"prompt_tokens"})
        prompt = body.get("prompt_tokens")
        if prompt is not None and not (type(prompt) is int and 1 <= prompt <= LONGEST_PROMPT):
            raise ConfigError({"prompt_tokens": f"give an integer from 1 to {LONGEST_PROMPT}"})
        config = config_of(body)
        check_runs_visible(request.user, config)  # the estimate reads its models
        unused = [{"path": setting.path, "why": setting.why} for setting in unused_settings(config)]
        return Response(appraisal_document(appraise(config, prompt)) | {"unused": unused})
