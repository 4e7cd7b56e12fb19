"""Who may do what in a project: owners everything, editors launch and stop, viewers read; visitors one shared thing."""

from collections.abc import Collection

from django.contrib.auth.models import AnonymousUser

from webapp.accounts.models import Membership, Project, User

Level = Membership.Level
Person = User | AnonymousUser


class Visitor(AnonymousUser):
    """Somebody without an account who came by a share link. webapp.shares.middleware puts one in the place of the user,
    for reading and at the addresses that the link opens, so that a login is not asked for; nowhere else is there one.

    Has no level in any project. Selectors show what is shared: runs through `runs_visible`, anything else where its
    selector asks `came_for`. What people wrote about it, and who they are, is not shown.
    """

    is_active = True  # type: ignore[assignment]
    is_authenticated = True  # type: ignore[assignment]

    def __init__(self, project: Project, kind: str, target: str, runs: Collection[str]) -> None:
        super().__init__()
        self.project, self.runs, self.share = project, runs, (kind, target)

    def came_for(self, kind: str, target: str) -> bool:
        """Whether this is the thing that their link shows."""
        return self.share == (kind, target)


def level_of(user: Person, project: Project) -> str | None:
    """owner, editor, viewer; None for somebody who is not a member, or is nobody."""
    if not isinstance(user, User) or not user.is_active or user.token_project_id not in (None, project.pk):
        return None
    return Membership.objects.filter(user=user, project=project).values_list("level", flat=True).first()


def can_view(user: Person, project: Project) -> bool:
    """Whether they may read everything in it."""
    return level_of(user, project) is not None


def can_edit(user: Person, project: Project) -> bool:
    """Whether they may launch, stop and resume."""
    return level_of(user, project) in (Level.OWNER, Level.EDITOR)


def is_owner(user: Person, project: Project) -> bool:
    """Whether they may change who belongs to it."""
    return level_of(user, project) == Level.OWNER
