"""The live feed of a run for somebody who came by a share link."""

from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import AnonymousUser
from django.test import Client

from tests.end_to_end.seed import Story, encoded
from webapp.accounts.models import User
from webapp.ingest.services import batch_store
from webapp.runs.models import Run
from webapp.shares.services import share_make, share_path, share_revoke

from .conftest import PATIENCE, As, Socket, Store

pytestmark = pytest.mark.django_db(transaction=True)


class Visiting(As):
    """The socket of a browser that has a session and no login."""

    def __init__(self, session: Any) -> None:
        super().__init__(AnonymousUser())
        self.session = session

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> Any:
        return await super().__call__({**scope, "session": self.session}, receive, send)


def followed(secret: str) -> Any:
    """The session of a browser that has followed the link."""
    browser = Client()
    browser.get(share_path(secret))
    return browser.session


async def test_a_visitor_gets_the_run_without_its_log_and_people(
    user: User, live_run: Run, store: Store
) -> None:
    share, secret = await sync_to_async(share_make)(user, live_run.project, "run", live_run.pk)
    session = await sync_to_async(followed)(secret)
    other = await sync_to_async(Run.objects.create)(
        project=live_run.project, owner=user, name="other", config=live_run.config, iterations=1
    )
    refused = Socket(Visiting(session), f"/ws/runs/{other.pk}/", [])
    assert await refused.connect() == (False, 4401)
    refused = Socket(Visiting(session), "/ws/runs/", [])
    assert await refused.connect() == (False, 4401)

    client = Socket(Visiting(session), f"/ws/runs/{live_run.pk}/", [])
    assert (await client.connect())[0]
    await sync_to_async(batch_store)(live_run.pk, encoded(Story(live_run.pk).opening()), "")
    await client.send_json_to({"cursor": 0})
    delta = await client.receive_json_from()
    assert await sync_to_async(live_run.log_lines.count)() > 0
    assert delta["log"] == 0 and delta["to"] > 0 and delta["run"]["state"] == "running"
    assert not {"owner", "project", "links"} & delta["run"].keys()

    await sync_to_async(share_revoke)(user, share)
    answer = await client.receive_output(PATIENCE)
    assert (answer["type"], answer.get("code")) == ("websocket.close", 4404)
    await client.disconnect()
