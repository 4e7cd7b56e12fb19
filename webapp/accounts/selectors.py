"""What a person may see of accounts."""

from django.db.models import Q, QuerySet
from django.http import Http404
from django.utils import timezone

from webapp.accounts.models import ApiToken, Membership, Project, User
from webapp.accounts.permissions import Person, is_owner


def projects_visible(user: Person) -> QuerySet[Project]:
    """Their projects by name; none for nobody."""
    if not isinstance(user, User) or not user.is_active:
        return Project.objects.none()
    found = Project.objects.filter(memberships__user=user).order_by("name", "pk")
    return found if user.token_project_id is None else found.filter(pk=user.token_project_id)


def project_editable(user: Person, slug: str) -> Project | None:
    """The project of this slug, if the user may change what is in it."""
    return projects_editable(user).filter(slug=slug).first()


def projects_editable(user: Person) -> QuerySet[Project]:
    """Those that they may launch in."""
    levels = [Membership.Level.OWNER, Membership.Level.EDITOR]
    return projects_visible(user).filter(memberships__user=user.pk, memberships__level__in=levels)


def project_get(user: Person, slug: str) -> Project:
    """One of their projects. Raises Http404 for any other, whether it exists or not."""
    project = projects_visible(user).filter(slug=slug).first()
    if project is None:
        raise Http404("no such project")
    return project


def project_default(user: Person) -> Project | None:
    """Where their runs go when they name no project: the first they may launch in, the oldest first."""
    return projects_editable(user).order_by("pk").first()


def members_list(project: Project) -> QuerySet[Membership]:
    """Members with their people, by name."""
    return project.memberships.select_related("user").order_by("user__username")


def tokens_list(user: User) -> QuerySet[ApiToken]:
    """Their personal tokens, newest first; tokens of runs are the server's business."""
    return ApiToken.objects.filter(user=user, run=None).select_related("project").order_by("-created_at")


def project_tokens(user: Person, project: Project) -> QuerySet[ApiToken]:
    """Personal tokens in use that reach this project, newest first: owners see those of all members, others their own.

    Who may no longer come in by a token is removed from the project, or revokes it themselves.
    """
    found = ApiToken.objects.filter(user__memberships__project=project, run=None, revoked_at=None)
    found = found.filter(Q(project=None) | Q(project=project))
    found = found.filter(Q(expires_at=None) | Q(expires_at__gt=timezone.now()))
    if not is_owner(user, project):
        found = found.filter(user=user.pk)
    return found.select_related("user", "project").order_by("-created_at")
