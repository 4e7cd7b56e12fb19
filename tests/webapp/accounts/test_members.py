"""Members of projects, what links lead to, and the audit log of changes."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import connection
from django.http import Http404
from django.test import Client

from tests.webapp.api.conftest import caller
from webapp.accounts.audit import audit_note
from webapp.accounts.models import AuditEntry, LoginLink, Membership, Project, User
from webapp.accounts.permissions import can_edit, can_view, is_owner, level_of
from webapp.accounts.selectors import project_default, project_get, projects_editable, projects_visible
from webapp.accounts.services import member_remove, member_set, owner_ensure, project_create, user_create
from webapp.accounts.tokens import link_create, link_use


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
    for name in ("eve", "nobody"):  # nobody else learns whether a username exists
        with pytest.raises(PermissionDenied):
            member_set(stranger, project, name, "owner")
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


def test_it_works_once(user: User) -> None:
    secret = link_create(user)
    assert link_use(secret) == user
    assert link_use(secret) is None


def test_it_is_not_stored(user: User) -> None:
    secret = link_create(user)
    assert secret not in str(LoginLink.objects.values().get())


def test_it_runs_out(user: User) -> None:
    assert link_use(link_create(user, timedelta(seconds=-1))) is None


def test_it_does_not_work_for_somebody_switched_off(user: User) -> None:
    secret = link_create(user)
    User.objects.update(is_active=False)
    assert link_use(secret) is None


@pytest.mark.django_db
@pytest.mark.parametrize("guess", ["", "0" * 43])
def test_guesses_do_not_work(guess: str) -> None:
    assert link_use(guess) is None


def test_links_that_ran_out_are_deleted(user: User) -> None:
    link_create(user, timedelta(seconds=-1))
    link_create(user)
    assert LoginLink.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_two_clicks_at_once_are_one_login() -> None:
    user = User.objects.create_user("ada")
    secret = link_create(user)

    def click(_: int) -> User | None:
        try:
            return link_use(secret)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(click, range(8)))
    assert answers.count(user) == 1


def test_the_page_logs_in_and_then_says_that_it_is_used(user: User, client: Client) -> None:
    address = f"/account/link/{link_create(user)}/"
    answer = client.get(address)
    assert (answer.status_code, answer["Location"]) == (302, "/runs/")
    assert client.session["_auth_user_id"] == str(user.pk)
    again = Client().get(address)
    assert again.status_code == 410
    assert "no longer works" in again.content.decode()
    assert client.get(address).status_code == 302, "who is logged in already is sent on"


def test_another_users_browser_asks_first(user: User, stranger: User, client: Client) -> None:
    client.force_login(stranger)
    address = f"/account/link/{link_create(user)}/"
    asked = client.get(address)
    assert asked.status_code == 200 and "Log in as ada" in asked.content.decode()
    assert client.session["_auth_user_id"] == str(stranger.pk)
    assert client.post(address).status_code == 302
    assert client.session["_auth_user_id"] == str(user.pk)


def test_looking_without_opening_does_not_use_it_up(user: User, client: Client) -> None:
    secret = link_create(user)
    assert client.head(f"/account/link/{secret}/").status_code == 405
    assert link_use(secret) == user


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example", "javascript:alert(1)"])
def test_it_leads_nowhere_else(user: User, client: Client, target: str) -> None:
    answer = client.get(f"/account/link/{link_create(user)}/", {"next": target})
    assert answer["Location"] == "/runs/"


def test_it_leads_to_a_page_of_ours(user: User, client: Client) -> None:
    answer = client.get(f"/account/link/{link_create(user)}/", {"next": "/account/tokens/"})
    assert answer["Location"] == "/account/tokens/"


API = "projects/lab/audit/"


@pytest.fixture
def lab(project: Project, user: User, stranger: User) -> Project:
    """Four entries: eve in and out, a stop by ada, something that Troupe did."""
    member_set(user, project, "eve", "editor")
    member_remove(user, project, stranger.pk)
    audit_note(user, project, "run.stop", "abcd2345")
    AuditEntry.objects.create(
        project=project, act="run.pause", target="<b>x</b>", details={"rule": "<i>nan</i>"}
    )
    return project


@pytest.mark.slow
def test_changes_of_members_are_noted(lab: Project) -> None:
    said = list(AuditEntry.objects.order_by("pk").values_list("user__username", "act", "target"))
    assert said[:2] == [("ada", "member.set", "eve"), ("ada", "member.remove", "eve")]
    assert AuditEntry.objects.get(act="member.set").details == {"level": "editor"}


@pytest.mark.parametrize(
    ("query", "acts"),
    [
        ("user=ada&act=member", ["member.remove", "member.set"]),
        ("act=run.", ["run.pause", "run.stop"]),
        ("target=ABCD", ["run.stop"]),
        ("since=2999-01-01", []),
        ("until=2999-01-01&limit=1", ["run.pause"]),
        ("since=2000-01-01T00:00:00Z&user=nobody", []),
    ],
)
def test_filters(lab: Project, user: User, query: str, acts: list[str]) -> None:
    answer = caller(user, "read")(f"{API}?{query}").json()
    assert [entry["act"] for entry in answer["results"]] == acts


def test_pages_follow_each_other(lab: Project, user: User) -> None:
    call = caller(user, "read")
    first = call(API, limit=3).json()
    second = call(API, limit=3, before=first["next"]).json()
    assert [len(first["results"]), len(second["results"]), second["next"]] == [3, 1, None]
