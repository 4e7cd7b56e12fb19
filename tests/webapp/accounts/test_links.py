"""Login links: once, for a while, for those who may."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client

from webapp.accounts.models import LoginLink, User
from webapp.accounts.tokens import link_create, link_use


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
