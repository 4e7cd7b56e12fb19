"""Views that save and delete templates from the form of an experiment."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from training_core.errors import ConfigError
from webapp.accounts.selectors import project_editable, projects_editable
from webapp.experiments.forms import draft_from_tree
from webapp.experiments.services import template_delete, template_save
from webapp.experiments.template_selectors import template_get
from webapp.experiments.views import form_page, posted_draft


@require_POST
def template_keep(request: HttpRequest) -> HttpResponse:
    """Save the form as a template; if it is rejected, show the form unchanged."""
    projects = list(projects_editable(request.user))
    draft, error = posted_draft(request)
    project = project_editable(request.user, request.POST.get("project", ""))
    if error or project is None:
        return form_page(
            request, draft, projects, error or "Select a project in which you can save templates."
        )
    try:
        template = template_save(
            request.user,
            project,
            request.POST.get("template_name", ""),
            draft.preset,
            draft_from_tree(draft.preset, draft.tree).overrides,
            request.POST.get("template_description", "").replace("\r\n", "\n"),
            replace="template_replace" in request.POST,
        )
    except ConfigError as refused:
        return form_page(request, draft, projects, f"The template is not saved: {refused}")
    messages.success(request, f"Saved as the template {template.name}.")
    return redirect(f"{reverse('experiments:new')}?template={template.pk}")


@require_POST
def template_forget(request: HttpRequest, pk: int) -> HttpResponse:
    """Delete it."""
    template = template_get(request.user, pk)
    template_delete(request.user, template)
    messages.success(request, f"The template {template.name} is deleted.")
    return redirect(reverse("experiments:new"))
