"""Template tags of accounts."""

from django import template
from django.contrib.auth.models import AnonymousUser
from django.db.models import QuerySet

from webapp.accounts.models import Project, User
from webapp.accounts.selectors import projects_visible

register = template.Library()


@register.simple_tag
def projects_of(user: User | AnonymousUser) -> QuerySet[Project]:
    """Return the user's projects, by name."""
    return projects_visible(user)
