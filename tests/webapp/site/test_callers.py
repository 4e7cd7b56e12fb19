"""What everybody who is not a member may do at every address, in every method: nothing. Beside test_authorisation.py, which has the
owners of other projects and the scopes of tokens.
"""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from tests.webapp.site.routes import routes
from tests.webapp.site.test_authorisation import BY_SECRET, OURS, OWN, ask, bearer, rows_of
from tests.webapp.site.world import World
from webapp.accounts.models import ApiToken, Membership, User
from webapp.accounts.tokens import token_create
from webapp.shares.access import KINDS
from webapp.shares.services import share_make

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
CLOSED = (401, 403, 404, 405, 410)
ALIVE = "/api/v1/runs/{run}/events/"


def sessions_shut(theirs: World) -> dict[str, Client]:
    """Browsers of people who are logged in, and see nothing of `theirs`."""
    outsider, staff = User.objects.create_user("outsider"), User.objects.create_user("staff", is_staff=True)
    found = {"outsider": Client(), "staff": Client()}
    found["outsider"].force_login(outsider)
    found["staff"].force_login(staff)
    return found


def tokens_shut(mine: World, theirs: World) -> dict[str, Client]:
    """Programs with tokens that open nothing of `theirs`."""
    left = User.objects.create_user("left", is_active=False)
    Membership.objects.create(project=theirs.project, user=left, level=Membership.Level.EDITOR)
    revoked, expired = (token_create(theirs.owner, name, ["admin"]) for name in ("revoked", "expired"))
    now = timezone.now()
    ApiToken.objects.filter(pk=revoked[0].pk).update(revoked_at=now)
    ApiToken.objects.filter(pk=expired[0].pk).update(expires_at=now - timedelta(minutes=1))
    return {
        "revoked": bearer(revoked[1]),
        "expired": bearer(expired[1]),
        "disabled account": bearer(token_create(left, "t", ["admin"])[1]),
        "ingest of another project": bearer(token_create(mine.owner, "i", ["ingest"], run_id=str(mine.things["run"]))[1]),
    }  # fmt: skip


@pytest.mark.extended
def test_people_and_programs_without_access_are_shut_out(worlds: tuple[World, World]) -> None:
    mine, theirs = worlds
    callers = {"nobody": Client()} | sessions_shut(theirs) | tokens_shut(mine, theirs)
    wrong, before = [], rows_of(theirs)
    for name, client in callers.items():
        for route in OURS:
            if route.name in BY_SECRET | OWN:
                continue
            for path in route.paths(theirs.things):
                for method in METHODS if route.api else METHODS[:2]:
                    status = ask(client, route, method, path)
                    login = status == 302 and not route.api
                    nothing = (
                        status == 400 and ask(client, route, method, route.path(_nowhere(theirs))) == 400
                    )
                    if status not in CLOSED and not login and not nothing:
                        wrong.append(f"{name}: {method} {path}: {status}")
        assert rows_of(theirs) == before, f"{name} has written"
    assert not wrong, "\n".join(wrong)


def _nowhere(world: World) -> dict[str, object]:
    """Ids that nothing has: a body may be looked at before the object is."""
    return dict.fromkeys(world.things, 999_999_999)


@pytest.mark.extended
def test_viewers_and_visitors_change_nothing(worlds: tuple[World, World]) -> None:
    theirs = worlds[1]
    viewer = User.objects.create_user("sees")
    Membership.objects.create(project=theirs.project, user=viewer, level=Membership.Level.VIEWER)
    client, visitor = Client(), Client()
    client.force_login(viewer)
    _, secret = share_make(theirs.owner, theirs.project, "run", str(theirs.things["run"]))
    visitor.get(f"/shared/{secret}/")
    run_id = str(theirs.things["run"])
    own = bearer(token_create(theirs.owner, "i", ["ingest"], run_id=str(theirs.things["second_run"]))[1])
    wrong = []
    for name, caller in {"viewer": client, "visitor": visitor, "ingest of another run": own}.items():
        before = rows_of(theirs)
        for route in OURS:
            if route.name in BY_SECRET | OWN | {"api:run-events"} or route.name.startswith("mlflow:"):
                continue
            for path in route.paths(theirs.things):
                for method in METHODS[1:] if route.api else METHODS[1:2]:
                    status = ask(caller, route, method, path)
                    if status >= 500 or (route.api and status < 300):
                        wrong.append(f"{name}: {method} {path}: {status}")
        after = rows_of(theirs)
        wrong += [f"{name} has written {table}" for table in before if before[table] != after[table]]
    assert own.post(ALIVE.format(run=run_id), "{}", content_type="application/x-ndjson").status_code == 403
    assert not wrong, "\n".join(wrong)


@pytest.mark.extended
def test_a_share_link_opens_the_pages_of_its_kind_alone(worlds: tuple[World, World]) -> None:
    theirs = worlds[1]
    _, secret = share_make(theirs.owner, theirs.project, "run", str(theirs.things["run"]))
    visitor = Client()
    visitor.get(f"/shared/{secret}/")
    opened = {
        route.name
        for route in routes()
        for path in route.paths(theirs.things)
        if route.object_names() and route.name not in BY_SECRET and ask(visitor, route, "GET", path) == 200
    }
    assert opened and opened <= set(KINDS["run"].views)
