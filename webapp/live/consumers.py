"""Websockets: who may watch, and from which cursor. All reading is done by feeds."""

import json
import time
from collections.abc import Collection
from typing import Any

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.db import Error as DatabaseError

from webapp.accounts.models import User
from webapp.live.deltas import text_for_visitors
from webapp.live.feeds import feeds
from webapp.live.outbox import Outbox
from webapp.live.runs_feed import runs_feed
from webapp.runs.selectors import runs_visible
from webapp.shares.middleware import GRANTS
from webapp.shares.selectors import visitor_find

UNAUTHENTICATED = 4401
NOT_FOUND = 4404
BAD_MESSAGE = 4400
TRY_AGAIN = 1013
LONGEST_MESSAGE = 200
LOOK_AGAIN = 5.0
"""Seconds after which a visitor's link is looked at again: one that was revoked ends the feed."""


class RunConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """/ws/runs/<id>/: the client says {"cursor": N}; deltas follow. See webapp/live/feeds.py."""

    outbox: Outbox | None = None
    grants: Collection[str] = ()
    """Share links that were followed."""
    visiting = False
    """Whether one of them alone opens the run."""
    looked = 0.0

    async def connect(self) -> None:
        """Refuse whoever may not see the run; nobody learns whether it exists."""
        self.run_id: str = self.scope["url_route"]["kwargs"]["run_id"]
        user = self.scope.get("user")
        if await database_sync_to_async(_may_see, thread_sensitive=False)(user, self.run_id):
            await self._begin()
        elif await database_sync_to_async(self._may_visit, thread_sensitive=False)():
            self.visiting, self.looked = True, time.monotonic()
            await self._begin()
        else:
            await self.close(NOT_FOUND if isinstance(user, User) else UNAUTHENTICATED)

    async def _begin(self) -> None:
        await self.accept()
        self.outbox = Outbox(self._send)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """The client's cursor: at first, and again when it has missed something."""
        cursor = _cursor(text_data)
        if cursor is None or self.outbox is None:
            await self.close(BAD_MESSAGE)
            return
        try:
            await feeds().of(self.run_id).join(self.outbox, cursor)
        except DatabaseError:
            await self.close(TRY_AGAIN)

    async def disconnect(self, code: int) -> None:
        """Leave the feed."""
        if self.outbox:
            self.outbox.close()
            feeds().leave(self.run_id, self.outbox)

    async def _send(self, text: str) -> None:
        if self.visiting:
            if time.monotonic() - self.looked > LOOK_AGAIN:
                self.looked = time.monotonic()
                if not await database_sync_to_async(self._may_visit, thread_sensitive=False)():
                    await self.close(NOT_FOUND)
                    return
            text = text_for_visitors(text)
        await self.send(text_data=text)

    def _may_visit(self) -> bool:
        session = self.scope.get("session")
        self.grants = self.grants or (session.get(GRANTS, ()) if session is not None else ())
        return visitor_find(self.grants, "runs:detail", {"run_id": self.run_id}) is not None


class RunsConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """/ws/runs/: summaries of the runs that changed, as far as the user may see them."""

    outbox: Outbox | None = None

    async def connect(self) -> None:
        """Anybody with a login."""
        user = self.scope.get("user")
        if not isinstance(user, User) or not user.is_authenticated:
            await self.close(UNAUTHENTICATED)
            return
        await self.accept()
        self.outbox = Outbox(self._send, self._come_back)
        runs_feed().join(self.outbox, user.pk)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Clients have nothing to say here."""

    async def disconnect(self, code: int) -> None:
        """Leave the feed."""
        if self.outbox:
            self.outbox.close()
            runs_feed().leave(self.outbox)

    async def _send(self, text: str) -> None:
        await self.send(text_data=text)

    async def _come_back(self) -> None:
        await self.close(TRY_AGAIN)


def _may_see(user: Any, run_id: str) -> bool:
    return isinstance(user, User) and runs_visible(user).filter(pk=run_id).exists()


def _cursor(text: str | None) -> int | None:
    """The N of {"cursor": N}; None for anything else."""
    try:
        message: Any = json.loads(text or "") if len(text or "") <= LONGEST_MESSAGE else None
    except ValueError:
        return None
    cursor = message.get("cursor") if isinstance(message, dict) else None
    return (
        cursor if isinstance(cursor, int) and not isinstance(cursor, bool) and 0 <= cursor < 2**63 else None
    )
