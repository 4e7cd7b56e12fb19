"""Permissions in a project: owners have full access, editors launch and stop, viewers read; visitors read one shared object."""

from collections.abc import Collection

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied

from webapp.accounts.models import Membership, Project, User
from webapp.common.compiled import CompiledQuery

Level = Membership.Level
Person = User | AnonymousUser


class Visitor(AnonymousUser):
    """An anonymous user who followed a share link. webapp.shares.access sets it as the request's user, for reading, at
    the URLs opened by the link, so that no login is required; it is used nowhere else.

    A visitor has no level in any project. Selectors return shared objects: runs through `runs_visible`, others where the
    selector calls `came_for`. Notes and the names of people are not shared.
    """

    is_active = True  # type: ignore[assignment]
    is_authenticated = True  # type: ignore[assignment]

    def __init__(self, project: Project, kind: str, target: str, runs: Collection[str]) -> None:
        super().__init__()
        self.project, self.runs, self.share = project, runs, (kind, target)

    def came_for(self, kind: str, target: str) -> bool:
        """Whether the visitor's link shows this object."""
        return self.share == (kind, target)


def level_of(user: Person, project: Project) -> str | None:
    """Return owner, editor or viewer; None for users who are not members and for anonymous users."""
    member = member_id(user, project)
    if member is None:
        return None
    return Membership.objects.filter(user=member, project=project).values_list("level", flat=True).first()


def member_id(user: Person, project: Project) -> int | None:
    """Return the id of a user whose membership counts in the project; None for visitors, and for tokens of other projects."""
    if not isinstance(user, User) or not user.is_active or user.token_project_id not in (None, project.pk):
        return None
    return user.pk


def can_view(user: Person, project: Project) -> bool:
    """Whether the user may read everything in the project."""
    return level_of(user, project) is not None


def can_edit(user: Person, project: Project) -> bool:
    """Whether the user may launch, stop and resume."""
    return level_of(user, project) in (Level.OWNER, Level.EDITOR)


_OF_RUN = CompiledQuery(
    lambda user_id, run_id: Membership.objects.filter(user=user_id).filter(project__runs=run_id)
)


def can_edit_run(user: User, run_id: str) -> bool:
    """`can_edit` for the project of a run, by one query: each batch of events asks it."""
    member = _OF_RUN.first(user.pk, run_id)
    if member is None or member_id(user, Project(pk=member.project_id)) is None:
        return False
    return member.level in (Level.OWNER, Level.EDITOR)


def require_edit(user: Person, project: Project) -> None:
    """Raise PermissionDenied for users who cannot edit."""
    if not can_edit(user, project):
        raise PermissionDenied("you may only read this project; ask an owner for the editor level")


def is_owner(user: Person, project: Project) -> bool:
    """Whether the user may change the members of the project."""
    return level_of(user, project) == Level.OWNER
