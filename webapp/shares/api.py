"""Share links in the REST API."""

from rest_framework.request import Request

from troupe_client.documents.shares import NewShare, Share, ShareBody
from webapp.accounts.permissions import Person
from webapp.accounts.selectors import project_get
from webapp.api.routes import Routes
from webapp.shares.services import (
    share_document,
    share_get,
    share_link,
    share_make,
    share_revoke,
    shares_list,
)

routes = Routes()


@routes.get("projects/<slug:slug>/shares/", name="shares")
def shares(user: Person, slug: str) -> list[Share]:
    """Return the links newest first, without their secrets."""
    return [share_document(share) for share in shares_list(project_get(user, slug))]


@routes.post("projects/<slug:slug>/shares/", status=201, admin=True)
def share_create(user: Person, request: Request, slug: str, body: ShareBody) -> NewShare:
    """Create a link; `link` is returned only in this response."""
    share, secret = share_make(user, project_get(user, slug), **dict(body))
    return NewShare(**dict(share_document(share)), link=share_link(request, secret))


@routes.post("projects/<slug:slug>/shares/<int:pk>/revoke/", name="share-revoke", admin=True)
def share_end(user: Person, slug: str, pk: int) -> Share:
    """Revoke a link."""
    return share_document(share_revoke(user, share_get(user, slug, pk)))
