"""Changes to people, projects and memberships."""

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
"""Username of whoever started the stack on this machine."""
DEFAULT_PROJECT = "default"
Result = TypeVar("Result")


def user_create(username: str) -> User:
    """A person without a password; a login link lets them in to set one. Raises ValidationError."""
    user = User(username=username)
    user.set_unusable_password()
    user.full_clean()
    user.save()
    return user


@transaction.atomic
def owner_ensure() -> tuple[User, Project]:
    """The local owner and their default project, made where they are missing."""
    user = User.objects.filter(username=OWNER).first() or user_create(OWNER)
    project, _ = Project.objects.get_or_create(slug=DEFAULT_PROJECT, defaults={"name": "Default"})
    Membership.objects.get_or_create(project=project, user=user, defaults={"level": Membership.Level.OWNER})
    return user, project


@transaction.atomic
def project_create(user: User, name: str) -> Project:
    """A project that this person owns; its slug is made from the name. Raises ValidationError, PermissionDenied."""
    if user.token_project_id is not None:
        raise PermissionDenied(
            "this token is of one project; make projects with a token of all your projects"
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
    """Add somebody, or change what they may do.

    Raises PermissionDenied unless `by` is an owner; ValidationError for an unknown person or level, or where no
    owner would be left.
    """
    if level not in Membership.Level.values:
        raise ValidationError({"level": f"levels are {', '.join(Membership.Level.values)}"})
    if not is_owner(by, project):
        raise PermissionDenied("only an owner changes who belongs to a project")
    person = _person_to_add(by, project, username)

    def change() -> Membership:
        membership, _ = Membership.objects.update_or_create(
            project=project, user=person, defaults={"level": level}
        )
        audit_note(by, project, "member.set", username, level=level)
        return membership

    return _changed(by, project, change)


def _person_to_add(by: User, project: Project, username: str) -> User:
    """The account of this name. Raises ValidationError where there is none, and after too many names without one."""
    member = User.objects.filter(username=username, is_active=True, memberships__project=project).first()
    if member is not None:
        return member
    if too_many_guesses("username", by.pk):
        raise ValidationError(
            {"username": f"{GUESSES} names had no account; wait an hour, then add somebody"}
        )
    person = User.objects.filter(username=username, is_active=True).first()
    if person is None:
        guess_note("username", by.pk)
        raise ValidationError({"username": f"there is no account {username!r}; it has to be made first"})
    return person


def member_remove(by: User, project: Project, user_id: int) -> None:
    """Take somebody out. Raises as `member_set`."""

    def change() -> None:
        if not Membership.objects.filter(project=project, user_id=user_id).delete()[0]:
            raise ValidationError("they are no member of this project")
        audit_note(by, project, "member.remove", User.objects.get(pk=user_id).username)

    _changed(by, project, change)


@transaction.atomic
def _changed(by: User, project: Project, change: Callable[[], Result]) -> Result:
    """Carry out a change by an owner, one at a time per project, and only if an owner is left after it."""
    Project.objects.select_for_update().get(pk=project.pk)
    if not is_owner(by, project):
        raise PermissionDenied("only an owner changes who belongs to a project")
    result = change()
    if not project.memberships.filter(level=Membership.Level.OWNER).exists():
        raise ValidationError("a project needs an owner; make somebody else owner first")
    return result
