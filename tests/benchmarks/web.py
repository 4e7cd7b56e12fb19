"""Pages and API measured in this process: a database of its own, and requests to the real views without a network.

Imports of this module come before those of Django's models.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import django

from tests.benchmarks.results import Side, timed
from tests.conftest import BASE, FAST, running_servers

django.setup()  # after tests.conftest, which sets the addresses of the servers

from django.db import connection  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import setup_test_environment, teardown_test_environment  # noqa: E402

from webapp.accounts.models import Membership, Project, User  # noqa: E402

TURN = 3
"""Requests in a turn."""


@contextmanager
def logged_in() -> Iterator[Client]:
    """An empty database with a person, the owner of the project lab, whose client is returned."""
    try:
        with running_servers(**FAST):
            setup_test_environment()
            connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
            try:
                yield _client()
            finally:
                teardown_test_environment()
                connection.close()
    finally:
        shutil.rmtree(BASE, ignore_errors=True)


def _client() -> Client:
    user = User.objects.create_user("ada")
    lab = Project.objects.create(slug="lab", name="Lab")
    Membership.objects.create(project=lab, user=user, level=Membership.Level.OWNER)
    client = Client()
    client.force_login(user)
    return client


def request_side(
    client: Client, name: str, address: str, query: Mapping[str, Any], check: Callable[[bytes], bool] = bool
) -> Side:
    """A side that sends a request; its figure is the mean of a turn in ms. The first answer is checked and not measured."""

    def send() -> bytes:
        answer = client.get(address, query)
        if answer.status_code != 200:
            raise ValueError(f"{name}: {address} answered {answer.status_code}")
        return answer.content

    if not check(send()):
        raise ValueError(f"{name}: unexpected answer of {address} with {dict(query)}")
    return lambda: {name: timed(send, TURN)[1] * 1e3}
