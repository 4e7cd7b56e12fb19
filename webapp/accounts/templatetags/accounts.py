"""Template tags of accounts."""

from django import template
from django.contrib.auth.models import AnonymousUser

from webapp.accounts.models import Project, User
from webapp.accounts.selectors import memberships_of

register = template.Library()


@register.simple_tag
def projects_of(user: User | AnonymousUser) -> list[Project]:
    """Return the user's projects, by name."""
    return [membership.project for membership in memberships_of(user)]
