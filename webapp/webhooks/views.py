"""Pages of a project's webhooks."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from training_core.errors import ConfigError
from webapp.accounts.selectors import project_get
from webapp.webhooks import services
from webapp.webhooks.forms import WebhookForm
from webapp.webhooks.selectors import deliveries_list, delivery_get, webhook_get, webhooks_list

SHOWN = 50


@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def webhooks_page(request: HttpRequest, slug: str) -> HttpResponse:
    """List the webhooks of a project; the secret of a new one is shown only in the response to its own POST."""
    hooks, project = webhooks_list(request.user, slug), project_get(request.user, slug)
    form, secret = WebhookForm(request.POST or None), ""
    if request.method == "POST" and form.is_valid():
        try:
            _, secret = services.webhook_make(request.user, project, **form.cleaned_data)
            form = WebhookForm()
        except ConfigError as error:
            for field, said in error.fields.items():
                form.add_error(field if field in form.fields else None, said)
    context = {
        "project": project,
        "mine": True,
        "form": form,
        "secret": secret,
        "hooks": [(hook, deliveries_list(hook).first()) for hook in hooks],
        "place": "projects",
        "part": "webhooks",
    }
    return render(request, "webhooks/list.html", context, status=400 if form.errors else 200)


@login_required
@require_safe
def webhook_page(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """Show one webhook with its deliveries and their responses."""
    hook = webhook_get(request.user, slug, pk)
    context = {
        "project": hook.project,
        "mine": True,
        "hook": hook,
        "deliveries": deliveries_list(hook)[:SHOWN],
        "place": "projects",
        "part": "webhooks",
    }
    return render(request, "webhooks/detail.html", context)


@login_required
@require_POST
def webhook_act(request: HttpRequest, slug: str, pk: int, act: str) -> HttpResponse:
    """Apply ping, on, off or remove."""
    hook = webhook_get(request.user, slug, pk)
    if act == "remove":
        services.webhook_remove(request.user, hook)
        messages.success(request, f"The webhook {hook.name} is removed.")
        return redirect("webhooks:list", slug=slug)
    if act == "ping":
        services.webhook_ping(request.user, hook)
        messages.success(request, "The ping is queued; reload the page to see its result.")
    elif act in ("on", "off"):
        services.webhook_switch(request.user, hook, act == "on")
    else:
        raise Http404
    return redirect("webhooks:page", slug=slug, pk=pk)


@login_required
@require_POST
def delivery_act(request: HttpRequest, slug: str, pk: int, delivery: int) -> HttpResponse:
    """Send a delivery again."""
    services.delivery_again(request.user, delivery_get(request.user, slug, pk, delivery))
    messages.success(request, "The delivery is queued; reload the page to see its result.")
    return redirect("webhooks:page", slug=slug, pk=pk)
