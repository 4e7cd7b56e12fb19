"""The audit and token pages of a project."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from training_core.errors import ConfigError
from webapp.accounts.audit_log import FIELDS, PAGE, audit_acts, audit_list, audit_people
from webapp.accounts.models import AuditEntry
from webapp.accounts.permissions import is_owner
from webapp.accounts.selectors import project_get, project_tokens


@require_GET
def audit_page(request: HttpRequest, slug: str) -> HttpResponse:
    """Show the audit log of a project; the filters are in the query string."""
    project = project_get(request.user, slug)
    filters = {name: request.GET.get(name, "").replace("\0", "").strip() for name in FIELDS}
    wrong, entries = "", list[AuditEntry]()
    try:
        entries = list(audit_list(project, filters)[: PAGE + 1])
    except ConfigError as error:
        wrong = str(error)
    query = request.GET.copy()
    if len(entries) > PAGE:
        query["before"] = str(entries[PAGE - 1].pk)
    context = {
        "project": project,
        "mine": is_owner(request.user, project),
        "entries": entries[:PAGE],
        "older": query.urlencode() if len(entries) > PAGE else "",
        "filters": filters,
        "filtered": any(filters.values()),
        "acts": audit_acts(project),
        "people": audit_people(project),
        "wrong": wrong,
        "place": "projects",
        "tab": "projects",
        "part": "audit",
    }
    return render(request, "accounts/audit.html", context, status=400 if wrong else 200)


@require_GET
def tokens_page(request: HttpRequest, slug: str) -> HttpResponse:
    """Show the API tokens with access to the project."""
    project = project_get(request.user, slug)
    context = {
        "project": project,
        "mine": is_owner(request.user, project),
        "tokens": project_tokens(request.user, project),
        "place": "projects",
        "part": "tokens",
    }
    return render(request, "accounts/project_tokens.html", context)
