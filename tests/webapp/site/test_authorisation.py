"""Who is not a member finds nothing; a token does no more than its scopes: every address of the URL conf."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client

from tests.webapp.site.routes import Route, routes
from tests.webapp.site.world import World
from webapp.accounts.models import ApiToken, Membership, User
from webapp.accounts.tokens import token_create

OURS = [route for route in routes() if route.object_names()]
"""Addresses that name something of a project."""
BY_SECRET = {"accounts:link", "shares:open"}
"""Whoever knows the secret of these is let in."""
OWN = {"accounts:token-revoke"}
"""Answers by a message that there is no such token."""
DELETING = ("remove", "delete", "prune", "revoke")
MANAGING = ("/members/", "/quota/", "/shares/", "/share/", "/channels/", "/webhooks/")
CREATING = ("api/v1/projects/", "api/v1/tokens/")
"""Addresses whose POST needs the scope admin, too."""
BODY = json.dumps({"name": "x", "text": "x", "title": "x", "username": "mine_owner", "level": "viewer"})


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def ask(client: Client, route: Route, method: str, path: str) -> int:
    """The status of the answer."""
    kind = "application/json" if route.api else "application/x-www-form-urlencoded"
    body: Any = "" if method == "GET" else BODY if route.api else "name=x&text=x&title=x&next=/runs/"
    return client.generic(method, path, body, content_type=kind).status_code


def ask_in_vain(client: Client, route: Route, method: str, path: str) -> int:
    """The status of the answer; what was written is undone."""
    with transaction.atomic():
        status = ask(client, route, method, path)
        transaction.set_rollback(True)
    return status


def rows_of(world: World) -> dict[str, int]:
    """A digest of what all tables hold, without what a request itself notes (sessions, a token's last use)."""
    aside = ("django_session", "accounts_apitoken", "accounts_user")
    with connection.cursor() as cursor:
        found = {}
        for table in connection.introspection.table_names(cursor):
            if table not in aside:
                cursor.execute(
                    f'SELECT coalesce(sum(hashtext(t::text)::bigint), 0), count(*) FROM "{table}" t'
                )
                found[table] = hash(cursor.fetchone())
    return found


def callers(theirs: World, mine: World) -> dict[str, tuple[Client, bool]]:
    """Name -> (client, whether it calls the API) of people who may see nothing of `theirs`."""
    session, both = Client(), User.objects.create_user("both")
    session.force_login(mine.owner)
    for world in (mine, theirs):
        Membership.objects.create(project=world.project, user=both, level=Membership.Level.OWNER)
    bound = token_create(both, "bound", ["admin"], project=mine.project)[1]
    return {
        "the owner of another project": (session, False),
        "a token of another project's owner": (bearer(mine.token), True),
        "a token bound to another project": (bearer(bound), True),
    }


def bearer(secret: str) -> Client:
    return Client(headers={"Authorization": f"Bearer {secret}"})


@pytest.mark.slow
def test_nothing_of_another_project_is_found_or_changed(worlds: tuple[World, World]) -> None:
    mine, theirs = worlds
    wrong, asked, nothing = [], 0, dict.fromkeys(theirs.things, 999_999_999)
    for caller, (client, programs) in callers(theirs, mine).items():
        before = rows_of(theirs)
        for route in OURS:
            if route.name in BY_SECRET | OWN or (programs and not route.api):
                continue
            for path in route.paths(theirs.things):
                for method in route.methods:
                    status, asked = ask(client, route, method, path), asked + 1
                    if status == 400:  # the body is looked at before the object, whether there is one or not
                        status = 404 if ask(client, route, method, route.path(nothing)) == 400 else 400
                    if status not in (401, 403, 404, 405):
                        wrong.append(f"{caller}: {method} {path}: {status}")
        assert rows_of(theirs) == before, f"{caller} has written"
    assert not wrong, "\n".join(wrong)
    assert asked > 300


def test_nobody_without_a_login_sees_a_page(worlds: tuple[World, World]) -> None:
    theirs, wrong = worlds[1], []
    for route in OURS:
        if route.name in BY_SECRET or route.name == "api:run-events":
            continue
        for path in route.paths(theirs.things):
            for method in route.methods:
                answer = Client().generic(method, path, "{}", content_type="application/json")
                login = answer.status_code == 302 and answer["Location"].startswith("/account/login/")
                if answer.status_code != 401 and not login and answer.status_code != 405:
                    wrong.append(f"{method} {path}: {answer.status_code}")
    assert not wrong, "\n".join(wrong)


def test_every_change_by_a_session_needs_the_csrf_token(worlds: tuple[World, World]) -> None:
    mine = worlds[0]
    client, wrong = Client(enforce_csrf_checks=True), []
    client.force_login(mine.owner)
    for route in routes():
        if route.name == "api:run-events":
            continue
        for path in route.paths(mine.things):
            for method in set(route.methods) - {"GET"}:
                status = ask_in_vain(client, route, method, path)
                if route.name.startswith("mlflow:") and status == 401:  # its callers have a token only
                    continue
                if status not in (403, 405):
                    wrong.append(f"{method} {path}: {status}")
    assert not wrong, "\n".join(wrong)


def scope_by_words(route: Route, method: str) -> str:
    """What an address says of itself: deleting and managing need admin, other changes launch."""
    if method == "GET":
        return "read"
    note = "/notes/" in route.pattern  # taking back what was written is a change like writing it
    deletes = method == "DELETE" or any(f"/{word}/" in route.pattern for word in DELETING) and not note
    manages = any(word in route.pattern for word in MANAGING) or route.pattern in CREATING
    return "admin" if deletes or manages else "launch"


@pytest.mark.slow
def test_every_operation_needs_the_scope_of_its_kind(worlds: tuple[World, World]) -> None:
    mine, wrong = worlds[0], []
    order = [str(scope) for scope in (ApiToken.Scope.READ, ApiToken.Scope.LAUNCH, ApiToken.Scope.ADMIN)]
    clients = {scope: bearer(token_create(mine.owner, scope, [scope])[1]) for scope in order}
    clients["ingest"] = bearer(token_create(mine.owner, "ingest", ["ingest"])[1])
    for route in [route for route in routes() if route.api and route.name != "api:run-events"]:
        for method in route.methods:
            needed = order.index(scope_by_words(route, method))
            for scope, client in clients.items():
                allowed = scope != "ingest" and order.index(scope) >= needed
                status = ask_in_vain(client, route, method, route.path(mine.things))
                if (status != 403) != allowed:
                    wrong.append(f"{method} {route.pattern} with {scope}: {status}")
    assert not wrong, "\n".join(wrong)
