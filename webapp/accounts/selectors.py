"""Queries of accounts, limited to what a user may see."""

from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import Http404
from django.utils import timezone

from webapp.accounts.models import ApiToken, Membership, Project, User
from webapp.accounts.permissions import Person, is_owner

_MEMBERSHIPS = "memberships_read"
"""Attribute of a request's user."""
MOST_NAMED = 10
"""Projects that an error message names."""


def projects_visible(user: Person) -> QuerySet[Project]:
    """Return the user's projects by name; none for anonymous users."""
    if not isinstance(user, User) or not user.is_active:
        return Project.objects.none()
    projects = Project.objects.filter(memberships__user=user).order_by("name", "pk")
    return projects if user.token_project_id is None else projects.filter(pk=user.token_project_id)


def memberships_of(user: Person) -> list[Membership]:
    """Return the memberships that count for the user of a request, with their projects, by name of the project.

    A request reads them once: the navigation and the buttons of a page need them. Code outside of requests uses `level_of`.
    """
    if not isinstance(user, User) or not user.is_active:
        return []
    read: list[Membership] | None = getattr(user, _MEMBERSHIPS, None)
    if read is None:
        mine = (
            Membership.objects.filter(user=user)
            .select_related("project")
            .order_by("project__name", "project__pk")
        )
        read = list(mine if user.token_project_id is None else mine.filter(project=user.token_project_id))
        setattr(user, _MEMBERSHIPS, read)
    return read


def membership_level(user: Person, project: Project) -> str | None:
    """Return the level of `memberships_of` in a project; None for users who are not members."""
    levels = {membership.project_id: membership.level for membership in memberships_of(user)}
    return levels.get(project.pk)


def project_editable(user: Person, slug: str) -> Project | None:
    """Return the project with this slug if the user may edit it, else None."""
    return projects_editable(user).filter(slug=slug).first()


def projects_editable(user: Person) -> QuerySet[Project]:
    """Return the projects in which the user may launch runs."""
    levels = [Membership.Level.OWNER, Membership.Level.EDITOR]
    return projects_visible(user).filter(memberships__user=user.pk, memberships__level__in=levels)


def project_get(user: Person, slug: str) -> Project:
    """Return one of the user's projects. Raises Http404 for any other, whether it exists or not."""
    project = projects_visible(user).filter(slug=slug).first()
    if project is None:
        own = ", ".join(projects_visible(user).values_list("slug", flat=True)[:MOST_NAMED]) or "none"
        raise Http404(
            f"there is no project {slug[:60]!r}; yours are: {own}. Create it with `troupe project create`"
        )
    return project


def project_named(user: Person, word: str) -> Project:
    """Return one of the user's projects by its slug, or by the name that pages show. Raises Http404."""
    visible = projects_visible(user)
    named = list(visible.filter(name__iexact=word.strip())[:2])
    if len(named) == 1 and not visible.filter(slug=word).exists():
        return named[0]
    return project_get(user, word)


def project_default(user: Person) -> Project | None:
    """Return the default project of the user's runs: the oldest in which they may launch."""
    return projects_editable(user).order_by("pk").first()


def project_chosen(user: Person, slug: str) -> Project:
    """Return the project with this slug, or the default of the user's runs. Raises Http404, PermissionDenied."""
    project = project_named(user, slug) if slug else project_default(user)
    if project is None:
        raise PermissionDenied("you cannot launch in any project; ask an owner for the editor level")
    return project


def members_list(project: Project) -> QuerySet[Membership]:
    """Return the memberships with their users, by name."""
    return project.memberships.select_related("user").order_by("user__username")


def tokens_list(user: User) -> QuerySet[ApiToken]:
    """Return the user's personal tokens, newest first; tokens of runs are internal to the server."""
    return ApiToken.objects.filter(user=user, run=None).select_related("project").order_by("-created_at")


def project_tokens(user: Person, project: Project) -> QuerySet[ApiToken]:
    """Return the active personal tokens with access to this project, newest first: all members' for owners, their own for
    other members.

    To end a member's access, an owner removes the member; only the member can revoke the token.
    """
    tokens = ApiToken.objects.filter(user__memberships__project=project, run=None, revoked_at=None)
    tokens = tokens.filter(Q(project=None) | Q(project=project))
    tokens = tokens.filter(Q(expires_at=None) | Q(expires_at__gt=timezone.now()))
    if not is_owner(user, project):
        tokens = tokens.filter(user=user.pk)
    return tokens.select_related("user", "project").order_by("-created_at")
