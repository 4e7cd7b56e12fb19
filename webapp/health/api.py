"""Findings in the REST API."""

from typing import Annotated, Literal

from pydantic import Field

from troupe_client.documents import health as documents
from webapp.accounts.permissions import Person
from webapp.api.routes import Routes
from webapp.health import services
from webapp.health.measures import rules_read
from webapp.health.services import finding_document, finding_get
from webapp.runs.selectors import run_get, run_summary

FINDING = "runs/<str:run_id>/findings/<int:pk>/"
routes = Routes()


@routes.get("runs/<str:run_id>/findings/", name="findings")
def findings(
    user: Person,
    run_id: str,
    state: Annotated[
        Literal["open", "resolved", "dismissed"] | None, Field(description="Only findings in this state.")
    ] = None,
) -> list[documents.Finding]:
    """Return findings, open ones first, with evidence, cause and remedy."""
    rows = services.findings_read(run_get(user, run_id))
    return [finding_document(row) for row in rows if state in (None, row.state)]


@routes.get("runs/<str:run_id>/health/", name="health-rules")
def health_rules(user: Person, run_id: str) -> list[documents.HealthRule]:
    """Return the health rules, those with open findings first, with value, threshold and how near they came to a finding."""
    run = run_get(user, run_id)
    return rules_read(run, services.settings_of(run))


@routes.post(f"{FINDING}dismiss/", name="finding-dismiss")
def finding_dismiss(user: Person, run_id: str, pk: int) -> documents.Finding:
    """Dismiss a finding."""
    return finding_document(services.finding_dismiss(user, finding_get(user, run_id, pk)))


@routes.post(f"{FINDING}reopen/", name="finding-reopen")
def finding_reopen(user: Person, run_id: str, pk: int) -> documents.Finding:
    """Reopen a finding."""
    return finding_document(services.finding_reopen(user, finding_get(user, run_id, pk)))


@routes.post(f"{FINDING}fork/", name="finding-fork", status=201)
def finding_fork(user: Person, run_id: str, pk: int, body: documents.FindingForkBody) -> documents.ForkedRun:
    """Fork the run at its last good (or best) checkpoint, or launch it again if it had written none; once per finding."""
    finding = finding_get(user, run_id, pk)
    fork = services.finding_fork(user, finding, services.settings_of(finding.run), body.overrides)
    return documents.ForkedRun(run_summary(run_get(user, fork.pk)))
