"""Changes to users, projects and memberships."""

from collections.abc import Callable
from typing import TypeVar

from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.utils.text import slugify

from webapp.accounts.audit import audit_note
from webapp.accounts.models import Membership, Project, User
from webapp.accounts.permissions import is_owner
from webapp.accounts.throttling import GUESSES, guess_note, too_many_guesses

OWNER = "owner"
"""Username of the local owner: the operating system user who started the stack on this machine."""
DEFAULT_PROJECT = "default"
Result = TypeVar("Result")


def user_create(username: str) -> User:
    """Create a user without a password; the user sets one after a login link. Raises ValidationError."""
    user = User(username=username)
    user.set_unusable_password()
    user.full_clean()
    user.save()
    return user


@transaction.atomic
def owner_ensure() -> tuple[User, Project]:
    """Return the local owner and their default project, creating them if missing."""
    user = User.objects.filter(username=OWNER).first() or user_create(OWNER)
    project, _ = Project.objects.get_or_create(slug=DEFAULT_PROJECT, defaults={"name": "Default"})
    Membership.objects.get_or_create(project=project, user=user, defaults={"level": Membership.Level.OWNER})
    return user, project


@transaction.atomic
def project_create(user: User, name: str) -> Project:
    """Create a project owned by this user; its slug is derived from the name. Raises ValidationError, PermissionDenied."""
    if user.token_project_id is not None:
        raise PermissionDenied(
            "this token is limited to one project; create projects with a token for all your projects"
        )
    base = slugify(name)[:50]
    if not base:
        raise ValidationError({"name": "a name needs at least one letter or digit"})
    taken = set(Project.objects.filter(slug__startswith=base).values_list("slug", flat=True))
    slug = next(
        slug for slug in [base, *(f"{base}-{number}" for number in range(2, 10_000))] if slug not in taken
    )
    project = Project(slug=slug, name=name.strip())
    project.full_clean()
    project.save()
    Membership.objects.create(project=project, user=user, level=Membership.Level.OWNER)
    audit_note(user, project, "project.create", slug)
    return project


def member_set(by: User, project: Project, username: str, level: str) -> Membership:
    """Add a member or change their level.

    Raises PermissionDenied unless `by` is an owner; ValidationError for an unknown user, or if no owner would remain.
    """
    if not is_owner(by, project):
        raise PermissionDenied("only an owner can change the members of a project")
    person = _person_to_add(by, project, username)

    def change() -> Membership:
        membership, _ = Membership.objects.update_or_create(
            project=project, user=person, defaults={"level": level}
        )
        audit_note(by, project, "member.set", username, level=level)
        return membership

    return _changed(by, project, change)


def _person_to_add(by: User, project: Project, username: str) -> User:
    """Return the account with this name. Raises ValidationError if there is none, and after too many unknown names."""
    member = User.objects.filter(username=username, is_active=True, memberships__project=project).first()
    if member is not None:
        return member
    if too_many_guesses("username", by.pk):
        raise ValidationError(
            {"username": f"{GUESSES} names had no account; wait an hour before you add another member"}
        )
    person = User.objects.filter(username=username, is_active=True).first()
    if person is None:
        guess_note("username", by.pk)
        raise ValidationError({"username": f"there is no account {username!r}; create it first"})
    return person


def member_remove(by: User, project: Project, user_id: int) -> None:
    """Remove a member. Raises the same errors as `member_set`."""

    def change() -> None:
        if not Membership.objects.filter(project=project, user_id=user_id).delete()[0]:
            raise ValidationError("this user is not a member of the project")
        audit_note(by, project, "member.remove", User.objects.get(pk=user_id).username)

    _changed(by, project, change)


@transaction.atomic
def _changed(by: User, project: Project, change: Callable[[], Result]) -> Result:
    """Apply a change by an owner, serialised per project, and roll it back if no owner remains."""
    Project.objects.select_for_update().get(pk=project.pk)
    if not is_owner(by, project):
        raise PermissionDenied("only an owner can change the members of a project")
    result = change()
    if not project.memberships.filter(level=Membership.Level.OWNER).exists():
        raise ValidationError("a project needs an owner; make another member an owner first")
    return result
