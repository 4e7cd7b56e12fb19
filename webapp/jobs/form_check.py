"""The check of the config in the form of an experiment: its start, its results, and whether they are of the present values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_POST

from training_core.config.files import parse_config
from training_core.errors import ConfigError
from troupe_client.documents.jobs import JobBody
from webapp.accounts.permissions import Person
from webapp.artifacts.services import references_resolve
from webapp.experiments.forms import Draft
from webapp.experiments.views import posted_draft, preview_response
from webapp.jobs.models import Job
from webapp.jobs.services import job_cancel, job_follow, job_get, poll_delay
from webapp.jobs.starting import job_start

NOT_COMPARED = {"name", "description", "tags"}
"""Fields of [run] that no check depends on."""


@dataclass(frozen=True)
class FormCheck:
    """The last check of a form."""

    job: Job
    stale: bool
    """Whether a field has changed since."""

    @property
    def results(self) -> Sequence[Mapping[str, Any]]:
        """Results by check, as workers.preflight.checks.Check; empty until the job has ended."""
        checks: list[Mapping[str, Any]] = self.job.result.get("checks", [])
        return checks

    @property
    def poll(self) -> int:
        """Milliseconds until the form asks again for a check that has not ended."""
        return poll_delay(self.job)

    @property
    def level(self) -> str:
        """running; bad: a check failed; good: all passed; warn: some have a warning or are not known, the values are others,
        or the check did not end.
        """
        if self.job.live:
            return "warn" if self.stale else "running"
        if self.stale or not self.results:
            return "warn"
        return "bad" if self.named["failed"] else "warn" if any(self.named.values()) else "good"

    @property
    def named(self) -> dict[str, list[str]]:
        """Names of the checks that did not pass, by state: failed, warning, unknown."""
        return {
            state: [str(check["name"]) for check in self.results if check["state"] == state]
            for state in ("failed", "warning", "unknown")
        }


def form_check_start(user: Person, draft: Draft, project: str, last: str) -> FormCheck:
    """Start a check of a valid draft, in place of the form's last one. Raises ConfigError, Http404, PermissionDenied."""
    if (before := form_check_read(user, draft, last)) is not None and before.job.live:
        job_cancel(user, before.job)
    job = job_start(user, JobBody(kind="check", config=draft.tree, project=project))
    return FormCheck(job, stale=False)


def form_check_read(user: Person, draft: Draft, pk: str) -> FormCheck | None:
    """Return the form's last check, with its newest results; None if there is none."""
    try:
        job = job_follow(job_get(user, pk)) if pk else None
    except Http404:
        return None
    if job is None or job.kind != Job.Kind.CHECK:
        return None
    return FormCheck(job, stale=_values(job.config) != _draft_values(user, draft, job))


def _draft_values(user: Person, draft: Draft, job: Job) -> dict[str, Any] | None:
    """The config that a check of the draft would have; None if it is not valid."""
    if draft.config is None:
        return None
    try:
        tree, _ = references_resolve(user, job.project, draft.tree)
        return _values(parse_config(tree).model_dump(mode="json"))
    except ConfigError:
        return None


def _values(config: Mapping[str, Any]) -> dict[str, Any]:
    run = {name: value for name, value in config["run"].items() if name not in NOT_COMPARED}
    return {**config, "run": run}


@require_POST
def form_preview(request: HttpRequest) -> HttpResponse:
    """Validate the current form: its errors, its last check, and the equivalent commands (a fragment for htmx).

    With ?start=1 a check of the form's config is started first.
    """
    draft, error = posted_draft(request)
    last, check = request.POST.get("check", ""), None
    try:
        if "start" in request.GET and draft.config is not None and not error:
            check = form_check_start(request.user, draft, request.POST.get("project", ""), last)
        else:
            check = form_check_read(request.user, draft, last)
    except ConfigError as refused:
        error = str(refused)
        check = form_check_read(request.user, draft, last)
    return preview_response(request, draft, error, check=check)
