"""Provenance in the REST API."""

from troupe_client.documents.provenance import RunProvenance
from webapp.accounts.permissions import Person
from webapp.api.routes import Routes
from webapp.provenance.services import provenance_document
from webapp.runs.selectors import run_get

routes = Routes()


@routes.get("runs/<str:run_id>/provenance/", name="run-provenance")
def provenance(user: Person, run_id: str) -> RunProvenance:
    """Return the code, machines and data of a run."""
    return provenance_document(run_get(user, run_id))
