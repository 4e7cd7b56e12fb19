"""REST API of presets and of the config's schema."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from training_core.config.experiment import AgentKind
from training_core.config.files import (
    has_words,
    parse_config,
    preset_names,
    read_preset,
    searched_text,
    to_toml,
)
from training_core.config.kinds import CONFIG_KINDS
from webapp.api.queries import choice, text
from webapp.api.schema import JSON, parameter
from webapp.experiments.fields import run_schema
from webapp.experiments.gallery import gallery


class Presets(APIView):
    """The presets of Troupe."""

    @extend_schema(
        responses=JSON,
        parameters=[parameter("find", str, "words in name, description, purpose, task or kind of agents")],
    )
    def get(self, request: Request) -> Response:
        """Return name, agents (language_models or networks), description, expected result (with its task), results on this server,
        config tree and TOML of every preset.
        """
        wanted = text(request, "find")
        configs = {name: parse_config(read_preset(name)) for name in preset_names()}
        results = [
            {
                **about,
                "config": configs[about["name"]].model_dump(mode="json"),
                "toml": to_toml(configs[about["name"]], only_set=True),
            }
            for about in gallery(request.user)
            if has_words(
                searched_text(about["name"], about["description"], CONFIG_KINDS[about["agents"]].label),
                wanted,
            )
        ]
        return Response({"results": results})


class RunSchema(APIView):
    """The run config's JSON schema."""

    @extend_schema(
        responses=JSON,
        parameters=[
            parameter(
                "agents", str, f"one of {', '.join(CONFIG_KINDS)}: the kind of config; the first by default"
            )
        ],
    )
    def get(self, request: Request) -> Response:
        """Return every field with its description, bounds and default."""
        agents = AgentKind(choice(request, "agents", CONFIG_KINDS) or next(iter(CONFIG_KINDS)))
        return Response(run_schema(CONFIG_KINDS[agents].config))
