"""Views that manage saved views on the page of runs."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from training_core.errors import ConfigError
from webapp.accounts.selectors import project_get
from webapp.common.redirects import back
from webapp.run_table.saved_views import WORDS, view_address, view_change, view_get, view_remove, view_save


@require_POST
def view_save_act(request: HttpRequest) -> HttpResponse:
    """Save the current table as a view and redirect to it."""
    post, user = request.POST, request.user
    shown = QueryDict(post.get("query", ""))
    query = {name: shown[name] for name in WORDS if name in shown}
    try:
        project = project_get(user, post["project"]) if post.get("project") else None
        view = view_save(user, post.get("name", ""), query, project, replace="replace" in post)
        if "default" in post:
            view_change(user, view, default=True)
    except ConfigError as error:
        messages.error(request, "; ".join(error.fields.values()))
        return back(request, reverse("runs:list"))
    messages.success(request, f"The view {view.name} is saved.")
    if "stay" in post:
        return back(request, view_address(view))
    return redirect(view_address(view))


@require_POST
def view_act(request: HttpRequest, pk: int, act: str) -> HttpResponse:
    """Apply rename, default, no-default or remove, and redirect to the table."""
    view = view_get(request.user, pk)
    try:
        if act == "rename":
            view_change(request.user, view, request.POST.get("name", "").strip() or view.name)
        elif act in ("default", "no-default"):
            view_change(request.user, view, default=act == "default")
        elif act == "remove":
            view_remove(request.user, view)
        else:
            raise Http404("no such act")
    except ConfigError as error:
        messages.error(request, "; ".join(error.fields.values()))
    return back(request, reverse("runs:list"))
