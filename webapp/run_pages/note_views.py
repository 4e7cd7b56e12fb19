"""Views that create, change and remove notes on a run."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST

from training_core.errors import ConfigError
from webapp.common.redirects import back
from webapp.runs.notes import run_note_add, run_note_change, run_note_get, run_note_remove
from webapp.runs.selectors import run_get


@require_POST
def run_note_act(request: HttpRequest, run_id: str) -> HttpResponse:
    """Create a note; redirects back to the form's page."""
    run = run_get(request.user, run_id)
    try:
        run_note_add(request.user, run, request.POST)
    except ConfigError as error:
        messages.error(request, str(error))
    return back(request, reverse("runs:detail", args=[run.pk]))


@require_POST
def run_note_change_act(request: HttpRequest, run_id: str, pk: int) -> HttpResponse:
    """Change the text of a note; redirects back to the form's page."""
    run = run_get(request.user, run_id)
    try:
        run_note_change(request.user, run_note_get(run, pk), request.POST.get("text"))
    except ConfigError as error:
        messages.error(request, str(error))
    return back(request, reverse("runs:detail", args=[run.pk]))


@require_POST
def run_note_remove_act(request: HttpRequest, run_id: str, pk: int) -> HttpResponse:
    """Remove a note; redirects back to the button's page."""
    run = run_get(request.user, run_id)
    run_note_remove(request.user, run_note_get(run, pk))
    return back(request, reverse("runs:detail", args=[run.pk]))
