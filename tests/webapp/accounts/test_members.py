"""Projects, memberships, who may what."""

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404

from webapp.accounts.models import Membership, Project, User
from webapp.accounts.permissions import can_edit, can_view, is_owner, level_of
from webapp.accounts.selectors import project_default, project_get, projects_editable, projects_visible
from webapp.accounts.services import member_remove, member_set, owner_ensure, project_create, user_create


@pytest.mark.parametrize(
    ("level", "rights"), [("owner", "veo"), ("editor", "ve"), ("viewer", "v"), (None, "")]
)
def test_levels(project: Project, stranger: User, level: str | None, rights: str) -> None:
    if level:
        Membership.objects.create(project=project, user=stranger, level=level)
    found = can_view(stranger, project), can_edit(stranger, project), is_owner(stranger, project)
    assert found == ("v" in rights, "e" in rights, "o" in rights)
    assert (project in projects_visible(stranger)) == ("v" in rights)
    assert (project in projects_editable(stranger)) == ("e" in rights)
    assert project_default(stranger) == (project if "e" in rights else None)


def test_nobody_and_who_is_switched_off_may_nothing(project: Project, user: User) -> None:
    user.is_active = False
    for person in (AnonymousUser(), user):
        assert level_of(person, project) is None
        assert not projects_visible(person).exists()


def test_a_level_counts_in_its_own_project_alone(project: Project, user: User, stranger: User) -> None:
    other = project_create(stranger, "Other")
    member_set(stranger, other, user.username, "viewer")
    assert list(projects_editable(user)) == [project]
    assert not can_edit(user, other)
    with pytest.raises(Http404):
        project_get(stranger, project.slug)


def test_an_owner_adds_changes_and_removes(project: Project, user: User, stranger: User) -> None:
    member_set(user, project, "eve", "viewer")
    member_set(user, project, "eve", "editor")
    assert list(project.memberships.filter(user=stranger).values_list("level", flat=True)) == ["editor"]
    member_remove(user, project, stranger.pk)
    assert level_of(stranger, project) is None


@pytest.mark.parametrize("level", ["editor", "viewer", None])
def test_nobody_else_changes_members(project: Project, user: User, stranger: User, level: str | None) -> None:
    if level:
        Membership.objects.create(project=project, user=stranger, level=level)
    with pytest.raises(PermissionDenied):
        member_set(stranger, project, "eve", "owner")
    with pytest.raises(PermissionDenied):
        member_remove(stranger, project, user.pk)
    assert level_of(stranger, project) == level
    assert level_of(user, project) == "owner"


def test_the_last_owner_stays(project: Project, user: User, stranger: User) -> None:
    for change in (
        lambda: member_set(user, project, "ada", "editor"),
        lambda: member_remove(user, project, user.pk),
    ):
        with pytest.raises(ValidationError, match="needs an owner"):
            change()
        assert level_of(user, project) == "owner"
    member_set(user, project, "eve", "owner")
    member_remove(user, project, user.pk)
    assert level_of(user, project) is None


def test_unknown_people_are_refused(project: Project, user: User) -> None:
    with pytest.raises(ValidationError, match="no account 'nobody'"):
        member_set(user, project, "nobody", "viewer")
    with pytest.raises(ValidationError, match="not a member"):
        member_remove(user, project, 999_999)


def test_slugs_are_made_from_names_and_differ(user: User) -> None:
    assert [project_create(user, name).slug for name in ("Two Words", "two words!", "Two  words")] == [
        "two-words",
        "two-words-2",
        "two-words-3",
    ]
    with pytest.raises(ValidationError, match="letter or digit"):
        project_create(user, "!!!")


@pytest.mark.django_db
def test_the_local_owner_is_made_once() -> None:
    first, second = owner_ensure(), owner_ensure()
    assert first == second
    user, project = first
    assert not user.has_usable_password() and not user.is_superuser
    assert is_owner(user, project)


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["", "two words", "x" * 200, "<script>"])
def test_impossible_usernames_are_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        user_create(name)
