"""The views that follow a share link and list a project's links."""

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from training_core.errors import ConfigError
from webapp.accounts.permissions import can_edit, is_owner
from webapp.accounts.selectors import project_get
from webapp.shares.access import GRANTS, KINDS
from webapp.shares.services import (
    share_document,
    share_follow,
    share_get,
    share_link,
    share_make,
    share_revoke,
    shares_list,
)

MOST_GRANTS = 20
LIFETIMES = {"1": "in a day", "7": "in a week", "30": "in 30 days", "365": "in a year", "": "never"}


class ShareForm(forms.Form):
    """A link to one run, or to a comparison of several."""

    run = forms.CharField(
        max_length=1000,
        label="Run",
        help_text="A run id; several ids, separated by commas, show a comparison.",
    )
    title = forms.CharField(
        max_length=200,
        required=False,
        label="Name",
        help_text="For example the recipient; shown only in this list.",
    )
    days = forms.ChoiceField(label="Expires", required=False, choices=list(LIFETIMES.items()), initial="30")

    def values(self) -> dict[str, Any]:
        """Return the arguments of `share_make`."""
        values = self.cleaned_data
        return target_of(values["run"].replace(",", " ").split()) | {
            "title": values["title"],
            "days": int(values["days"]) if values["days"] else None,
        }


def target_of(runs: list[str]) -> dict[str, str]:
    """Return kind and target of a link to one run, or to the comparison of several."""
    if len(runs) == 1:
        return {"kind": "run", "target": runs[0]}
    return {"kind": "comparison", "target": f"runs={','.join(runs)}" if runs else ""}


@login_not_required
@never_cache
@require_safe
def share_open(request: HttpRequest, secret: str) -> HttpResponse:
    """Store the link in the browser's session and redirect to the shared object; 410 if the link is not active."""
    share = share_follow(secret)
    if share is None:
        return render(request, "shares/gone.html", status=410)
    grants = [grant for grant in request.session.get(GRANTS, []) if grant != share.digest]
    request.session[GRANTS] = [*grants, share.digest][-MOST_GRANTS:]
    return redirect(KINDS[share.kind].address(share.target))


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def shares_page(request: HttpRequest, slug: str) -> HttpResponse:
    """List the links of a project; a new link is shown only in the response to its own POST."""
    project = project_get(request.user, slug)
    form = ShareForm(request.POST or None, initial={"run": request.GET.get("run", "")})
    secret = ""
    if request.method == "POST" and form.is_valid():
        try:
            _, secret = share_make(request.user, project, **form.values())
            form = ShareForm()
        except ConfigError as error:
            form.add_error("run", str(error))
    context = {
        "project": project,
        "may": can_edit(request.user, project),
        "mine": is_owner(request.user, project),
        "form": form,
        "link": share_link(request, secret) if secret else "",
        "shares": [share_document(share) for share in shares_list(project)],
        "place": "projects",
        "part": "shares",
    }
    return render(request, "shares/page.html", context, status=400 if form.errors else 200)


@require_POST
def share_end(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """Revoke a link."""
    share_revoke(request.user, share_get(request.user, slug, pk))
    messages.success(request, "The link is revoked.")
    return redirect("shares:list", slug=slug)
