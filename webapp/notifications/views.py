"""Pages of a project's destinations."""

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from training_core.errors import ConfigError
from webapp.accounts.selectors import project_get
from webapp.notifications import services
from webapp.notifications.kinds import KINDS
from webapp.notifications.services import (
    deliveries_list,
    delivery_get,
    destination_get,
    destination_status,
    destinations_list,
)
from webapp.runs.lifecycle import EVENTS


class DestinationForm(forms.Form):
    """The kind, address and events of a destination."""

    kind = forms.ChoiceField(label="Kind", choices=[(name, kind.title) for name, kind in KINDS.items()])
    name = forms.CharField(max_length=80, label="Name")
    address = forms.CharField(
        max_length=2000,
        label="Address",
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="Webhook: https://host/path. Channel: an Apprise URL such as mailto://user:password@host. "
        "It may contain a secret: it is encrypted, and not shown again.",
    )
    events = forms.MultipleChoiceField(
        label="Events",
        required=False,
        choices=[(name, f"{name}: {words}") for name, words in EVENTS.items()],
        widget=forms.CheckboxSelectMultiple,
        help_text="If none is selected, a webhook gets all events, a channel the findings.",
    )


SHOWN = 50
FRAME = {"mine": True, "place": "projects", "part": "notifications"}


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def destinations_page(request: HttpRequest, slug: str) -> HttpResponse:
    """List the destinations of a project; the secret of a new one is shown only in the response to its own POST."""
    destinations, project = destinations_list(request.user, slug), project_get(request.user, slug)
    form, secret = DestinationForm(request.POST or None), ""
    if request.method == "POST" and form.is_valid():
        try:
            _, secret = services.destination_make(request.user, project, **form.cleaned_data)
            form = DestinationForm()
        except ConfigError as error:
            for field, message in error.fields.items():
                form.add_error(field if field in form.fields else None, message)
    context = FRAME | {
        "project": project,
        "form": form,
        "secret": secret,
        "destinations": [(row, deliveries_list(row).first()) for row in destinations],
    }
    return render(request, "notifications/list.html", context, status=400 if form.errors else 200)


@require_safe
def destination_page(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """Show one destination with its deliveries and their responses."""
    destination = destination_get(request.user, slug, pk)
    context = FRAME | {
        "project": destination.project,
        "destination": destination,
        "status": destination_status(destination),
        "deliveries": deliveries_list(destination)[:SHOWN],
    }
    return render(request, "notifications/detail.html", context)


@require_POST
def destination_act(request: HttpRequest, slug: str, pk: int, act: str) -> HttpResponse:
    """Apply ping, on, off or remove."""
    destination = destination_get(request.user, slug, pk)
    if act == "remove":
        services.destination_remove(request.user, destination)
        messages.success(request, f"The {destination.kind} {destination.name} is removed.")
        return redirect("notifications:list", slug=slug)
    if act == "ping":
        services.destination_ping(request.user, destination)
        messages.success(request, "The ping is queued; reload the page to see its result.")
    elif act in ("on", "off"):
        services.destination_switch(request.user, destination, act == "on")
    else:
        raise Http404
    return redirect("notifications:page", slug=slug, pk=pk)


@require_POST
def delivery_act(request: HttpRequest, slug: str, pk: int, delivery: int) -> HttpResponse:
    """Send a delivery again."""
    row = delivery_get(destination_get(request.user, slug, pk), delivery)
    services.delivery_again(request.user, row)
    messages.success(request, "The delivery is queued; reload the page to see its result.")
    return redirect("notifications:page", slug=slug, pk=pk)
