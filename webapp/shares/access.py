"""What a followed share link opens: the kinds of links, and the visitor that a request becomes.

A new kind is one entry of KINDS. Visitors with a link cannot open any other URL.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.urls import Resolver404, resolve, reverse
from django.utils import timezone
from django.utils.deprecation import MiddlewareMixin

from webapp.accounts.permissions import Visitor, can_view
from webapp.shares.models import ShareLink

GRANTS = "shares"
"""Session key: digests of the followed links."""
READING = ("GET", "HEAD")
RUN = "run_id"


@dataclass(frozen=True)
class Kind:
    """One kind of share link."""

    views: Mapping[str, str]
    """Names of the views it opens for reading -> the URL argument that must equal the target; empty: none."""
    runs: Callable[[str], Collection[str]]
    """target -> ids of the runs that those views may read; evaluated at every request. Runs outside the link's project
    are never readable."""
    address: Callable[[str], str]
    """target -> the URL the link redirects to."""


def compared_runs(query: str) -> list[str]:
    """Return the ids in the query of a comparison's URL: runs=a,b."""
    return [pk for words in parse_qs(query).get("runs", []) for pk in words.split(",") if pk]


RUN_VIEWS = (
    "runs:detail",
    "runs:curves",
    "runs:chart",
    "transcripts:list",
    "transcripts:detail",
    "transcripts:tree",
    "transcripts:probes",
    "transcripts:diff",
    "media:page",
    "api:media-content",
    "api:media-heat-map",
    "api:run-series",
    "api:series-export",
)
EPISODE_VIEWS = ("api:answer-tokens", "api:episode-boards")
"""Views used by the page of an episode; the selector of episodes limits which episodes."""
COMPARISON_VIEWS = (
    "compare:page",
    "compare:config",
    "compare:parallel",
    "compare:probes",
    "compare:media",
    "api:compare",
    "api:compare-curves",
    "api:compare-config",
    "api:compare-table",
    "api:compare-probes",
    "api:run-series",
    "api:media-content",
    "api:media-heat-map",
)
KINDS: dict[str, Kind] = {
    "run": Kind(
        views=dict.fromkeys(RUN_VIEWS, RUN) | dict.fromkeys(EPISODE_VIEWS, ""),
        runs=lambda target: [target],
        address=lambda target: reverse("runs:detail", args=[target]),
    ),
    "comparison": Kind(
        views=dict.fromkeys(COMPARISON_VIEWS, ""),
        runs=compared_runs,
        address=lambda target: f"{reverse('compare:page')}?{target}",
    ),
    "report": Kind(
        views={"reports:page": "pk"},
        runs=lambda target: [],
        address=lambda target: reverse("reports:page", args=[target]),
    ),
}


def shares_live(digests: Collection[str]) -> QuerySet[ShareLink]:
    """Return the active links with these secrets."""
    lasting = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    return ShareLink.objects.filter(lasting, digest__in=digests, revoked_at=None).select_related("project")


def visitor_find(digests: Collection[str], view: str, arguments: Mapping[str, Any]) -> Visitor | None:
    """Return a Visitor if one of the links opens this view, else None."""
    kinds = {name: kind.views[view] for name, kind in KINDS.items() if view in kind.views}
    if not kinds or not digests:
        return None
    for share in shares_live(digests).filter(kind__in=kinds):
        part, runs = kinds[share.kind], KINDS[share.kind].runs(share.target)
        if part and str(arguments.get(part)) != share.target:
            continue
        if not part and "run_id" in arguments and arguments["run_id"] not in runs:
            continue
        return Visitor(share.project, share.kind, share.target, runs)
    return None


def address_opens(digests: Collection[str], address: str) -> bool:
    """Return whether one of the links opens this address, a path with its query; a comparison, only of shared runs."""
    path, query = urlsplit(address)[2:4]
    try:
        match = resolve(path)
    except Resolver404:
        return False
    visitor = visitor_find(digests, match.view_name, match.kwargs)
    if visitor is None:
        return False
    return match.app_name != "compare" or set(compared_runs(query)) <= set(visitor.runs)


class SharedAccess(MiddlewareMixin):
    """Sets a Visitor as the user at the URLs that a followed link opens; at other URLs the user stays anonymous.

    Runs after the authentication middleware. Members of the project keep their own user.
    """

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: dict[str, Any]
    ) -> None:
        """Set a Visitor as the user if a link opens this URL."""
        digests = request.session.get(GRANTS)
        if not digests or request.method not in READING or request.resolver_match is None:
            return
        visitor = visitor_find(digests, request.resolver_match.view_name, kwargs)
        if visitor and not can_view(request.user, visitor.project):
            request.user = visitor
