"""Reading templates."""

from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from django.urls import reverse

from webapp.accounts.permissions import Person
from webapp.accounts.selectors import projects_visible
from webapp.experiments.models import Template


def templates_visible(user: Person) -> QuerySet[Template]:
    """Return the templates of the user's projects, by name."""
    visible = Template.objects.filter(project__in=projects_visible(user)).select_related("project", "owner")
    return visible.order_by("name", "pk")


def template_get(user: Person, pk: int) -> Template:
    """Return one template. Raises Http404, also for projects that are not visible to the user."""
    template = templates_visible(user).filter(pk=pk).first()
    if template is None:
        raise Http404(f"there is no template {pk} that is visible to you")
    return template


def template_document(template: Template) -> dict[str, Any]:
    """Return a template as JSON."""
    return {
        "id": template.pk,
        "name": template.name,
        "description": template.description,
        "project": template.project.slug,
        "owner": template.owner.username if template.owner else "",
        "preset": template.preset,
        "overrides": template.overrides,
        "created_at": template.created_at.isoformat(),
        "links": {"page": f"{reverse('experiments:new')}?template={template.pk}"},
    }
