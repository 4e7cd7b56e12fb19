"""Who may do what in a project: owners everything, editors launch and stop, viewers read."""

from django.contrib.auth.models import AnonymousUser

from webapp.accounts.models import Membership, Project, User

Level = Membership.Level
Person = User | AnonymousUser


def level_of(user: Person, project: Project) -> str | None:
    """owner, editor, viewer; None for somebody who is not a member, or is nobody."""
    if not isinstance(user, User) or not user.is_active:
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
