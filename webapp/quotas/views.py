"""The page of a project's quotas."""

from typing import ClassVar

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from webapp.accounts.permissions import is_owner
from webapp.accounts.selectors import project_get
from webapp.quotas.models import Quota
from webapp.quotas.services import LIMITS, quota_document, quota_of, quota_set


class QuotaForm(forms.ModelForm):  # type: ignore[type-arg]
    """The limits; an empty field is no limit."""

    class Meta:
        model = Quota
        fields = LIMITS
        widgets: ClassVar = {name: forms.NumberInput(attrs={"placeholder": "no limit"}) for name in LIMITS}
        help_texts: ClassVar = {
            "runs": "Further runs wait in the queue. 0: no run starts.",
            "cpus": "All runs of the project together.",
            "gpus": "All runs of the project together.",
            "points": "Points of curves. Counted twice a minute.",
            "gigabytes": "Transcripts in the database and checkpoints on disk. Counted twice a minute.",
        }


@require_http_methods(["GET", "HEAD", "POST"])
def quotas_page(request: HttpRequest, slug: str) -> HttpResponse:
    """Show usage and limits of the project; owners change the limits."""
    project = project_get(request.user, slug)
    form = QuotaForm(request.POST or None, instance=quota_of(project))
    if request.method == "POST" and form.is_valid():
        quota_set(request.user, project, {name: form.cleaned_data[name] for name in LIMITS})
        messages.success(request, "The quotas are saved.")
        return redirect("quotas:page", slug=slug)
    quota = quota_document(project)
    used = dict(quota.used)
    context = {
        "project": project,
        "form": form,
        "quota": quota,
        "mine": is_owner(request.user, project),
        "rows": [(form.fields[name].label, used[name], limit) for name, limit in quota.limits],
        "place": "projects",
        "part": "quotas",
    }
    return render(request, "quotas/page.html", context, status=400 if form.errors else 200)
