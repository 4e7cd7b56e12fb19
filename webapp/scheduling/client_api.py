"""The API for custom programs that train themselves and report to this server."""

from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from training_core.errors import ConfigError
from webapp.accounts.selectors import project_default, project_named
from webapp.api.schema import JSON
from webapp.metrics.selectors import step_next
from webapp.runs.selectors import run_summary
from webapp.scheduling.client_runs import client_run_begin, client_run_read


class ClientRuns(APIView):
    """Runs of custom programs."""

    @extend_schema(request=JSON, responses={200: JSON, 400: JSON, 409: JSON})
    def post(self, request: Request) -> Response:
        """Create or resume a run: fields as in webapp.scheduling.client_runs.ClientRun, and `project` (a slug).

        Returns {"run": summary, "attempt": number, "step": next step}; events are posted to the run's `events` link, with the
        same token.
        """
        body = dict(request.data) if isinstance(request.data, dict) else {}
        slug = body.pop("project", "")
        if not isinstance(slug, str):
            raise ConfigError({"project": "give a project's slug"})
        project = project_named(request.user, slug) if slug else project_default(request.user)
        if project is None:
            raise PermissionDenied("you cannot write to any project; ask an owner for the editor level")
        run, attempt = client_run_begin(request.user, project, client_run_read(body))
        return Response({"run": run_summary(run), "attempt": attempt.number, "step": step_next(run)})
