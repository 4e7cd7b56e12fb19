"""The account pages, through HTTP."""

import pytest
from django.test import Client

from webapp.accounts.models import ApiToken, Membership, Project, User
from webapp.accounts.throttling import ADDRESS_FAILURES, FAILURES, GUESSES, _client
from webapp.accounts.tokens import token_create, token_find

PASSWORD = "correct horse battery"


@pytest.fixture
def here(client: Client, user: User) -> Client:
    """A browser in which `user` is logged in."""
    client.force_login(user)
    return client


@pytest.fixture(autouse=True)
def _forget_failures() -> None:
    with _client() as redis:
        for key in [key for kind in ("login", "username") for key in redis.scan_iter(f"troupe:{kind}:*")]:
            redis.delete(key)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "page",
    ["/account/tokens/", "/account/projects/", "/account/password/", "/runs/", "/experiments/new/", "/reports/",
     "/docs/", "/docs/health/", "/docs/images/spread-curves.svg", "/docs/explain/metric/"],
)  # fmt: skip
def test_pages_want_a_login(client: Client, page: str) -> None:
    answer = client.get(page)
    assert (answer.status_code, answer["Location"]) == (302, f"/account/login/?next={page}")


def test_login_leads_back(client: Client, user: User) -> None:
    form = {"username": "ada", "password": PASSWORD, "next": "/account/tokens/"}
    answer = client.post("/account/login/", form)
    assert (answer.status_code, answer["Location"]) == (302, "/account/tokens/")


def test_a_wrong_password_is_told_and_counted(client: Client, user: User) -> None:
    for _ in range(FAILURES):
        answer = client.post("/account/login/", {"username": "ada", "password": "wrong"})
        assert "username or password is not correct" in answer.content.decode()
    answer = client.post("/account/login/", {"username": "ada", "password": PASSWORD})
    assert "Too many failed attempts" in answer.content.decode()
    assert "_auth_user_id" not in client.session


def test_failures_of_many_names_lock_their_address(client: Client, user: User) -> None:
    for number in range(ADDRESS_FAILURES):
        client.post("/account/login/", {"username": f"name{number}", "password": "wrong"})
    form = {"username": "ada", "password": PASSWORD}
    assert "Too many failed attempts" in client.post("/account/login/", form).content.decode()
    elsewhere = Client(REMOTE_ADDR="192.0.2.7")
    assert elsewhere.post("/account/login/", form).status_code == 302


def test_logout_is_a_post(here: Client) -> None:
    assert here.get("/account/logout/").status_code == 405
    assert here.post("/account/logout/").status_code == 302
    assert "_auth_user_id" not in here.session


def test_a_token_is_shown_once(here: Client, user: User) -> None:
    answer = here.post("/account/tokens/", {"name": "laptop", "scope": "launch", "days": "30"})
    token = ApiToken.objects.get()
    assert token.scopes == ["launch", "read"] and token.expires_at is not None
    secret = answer.content.decode().split('id="new-token">')[1].split("<")[0]
    assert token_find(secret) == token
    assert "no-store" in answer["Cache-Control"]
    assert secret not in here.get("/account/tokens/").content.decode()


def test_a_person_cannot_make_an_ingest_token(here: Client) -> None:
    assert here.post("/account/tokens/", {"name": "x", "scope": "ingest"}).status_code == 400
    assert not ApiToken.objects.exists()


def test_revoking(here: Client, user: User, stranger: User) -> None:
    mine, my_secret = token_create(user, "mine", ["read"])
    other, other_secret = token_create(stranger, "other", ["read"])
    here.post(f"/account/tokens/{mine.pk}/revoke/")
    answer = here.post(f"/account/tokens/{other.pk}/revoke/", follow=False)
    assert answer.status_code == 302
    assert token_find(my_secret) is None and token_find(other_secret) == other
    assert here.get(f"/account/tokens/{mine.pk}/revoke/").status_code == 405


def test_members_page(here: Client, project: Project, stranger: User) -> None:
    address = f"/account/projects/{project.slug}/members/"
    assert here.post(address, {"username": "eve", "level": "viewer"}).status_code == 302
    assert "eve" in here.get(address).content.decode()
    wrong = here.post(address, {"username": "nobody", "level": "viewer"})
    assert wrong.status_code == 400 and "there is no account" in wrong.content.decode()
    viewer = Client()
    viewer.force_login(stranger)
    assert "Add a member" not in viewer.get(address).content.decode()
    assert viewer.post(address, {"username": "eve", "level": "owner"}).status_code == 403
    here.post(f"{address}{stranger.pk}/remove/")
    assert viewer.get(address).status_code == 404
    assert not Membership.objects.filter(user=stranger).exists()


def test_owners_cannot_try_out_many_usernames(here: Client, project: Project, stranger: User) -> None:
    address = f"/account/projects/{project.slug}/members/"
    for number in range(GUESSES):
        answer = here.post(address, {"username": f"name{number}", "level": "viewer"})
        assert "there is no account" in answer.content.decode()
    known = here.post(address, {"username": "eve", "level": "viewer"})
    unknown = here.post(address, {"username": "nobody", "level": "viewer"})
    assert known.status_code == unknown.status_code == 400
    for answer in (known, unknown):
        assert "names had no account" in answer.content.decode()
    assert not Membership.objects.filter(user=stranger).exists()
    assert here.post(address, {"username": "ada", "level": "owner"}).status_code == 302, (
        "members may be changed"
    )


def test_a_first_password_can_be_set_and_then_only_changed(client: Client, db: None) -> None:
    person = User.objects.create_user("new")
    client.force_login(person)
    new = {"new_password1": "a long enough secret", "new_password2": "a long enough secret"}
    assert client.post("/account/password/", new).status_code == 302
    person.refresh_from_db()
    assert person.check_password("a long enough secret")
    again = {"new_password1": "yet another secret 1", "new_password2": "yet another secret 1"}
    assert client.post("/account/password/", again).status_code == 400, "the old one is wanted"


def test_projects_page_makes_one(here: Client, user: User) -> None:
    answer = here.post("/account/projects/", {"name": "Second lab"})
    assert answer["Location"] == "/account/projects/second-lab/members/"
    assert Membership.objects.get(project__slug="second-lab").level == "owner"
