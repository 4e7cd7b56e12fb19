"""Quotas in the REST API."""

from troupe_client.documents.quotas import Quota, QuotaBody
from webapp.accounts.permissions import Person
from webapp.accounts.selectors import project_get
from webapp.api.routes import Routes
from webapp.quotas.services import quota_document, quota_set

routes = Routes()


@routes.get("projects/<slug:slug>/quota/", name="quota")
def quota(user: Person, slug: str) -> Quota:
    """Return the limits (null: none) and the current usage, by the same names."""
    return quota_document(project_get(user, slug))


@routes.post("projects/<slug:slug>/quota/", admin=True)
def quota_change(user: Person, slug: str, body: QuotaBody) -> Quota:
    """Change some limits; owners only, unless an administrator has locked them."""
    project = project_get(user, slug)
    quota_set(user, project, body.model_dump(exclude_unset=True))
    return quota_document(project)
