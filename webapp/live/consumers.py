"""Websocket consumers and their addresses: access checks and cursors. Feeds read the database."""

import json
from collections.abc import Collection
from typing import Any

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.db import Error as DatabaseError
from django.urls import path, re_path

from webapp.accounts.models import User
from webapp.live.access import NOT_FOUND, UNAUTHENTICATED, Pass, access_watch
from webapp.live.deltas import text_for_visitors
from webapp.live.feeds import Outbox, feeds
from webapp.live.frames import writer_of
from webapp.live.runs_feed import runs_feed
from webapp.runs.selectors import runs_visible
from webapp.shares.access import GRANTS, visitor_find

BAD_MESSAGE = 4400
TRY_AGAIN = 1013
LONGEST_MESSAGE = 200


class WatchedConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """A socket that is closed when its user loses access."""

    outbox: Outbox | None = None

    async def end(self, code: int) -> None:
        """Stop sending and close the socket."""
        if self.outbox:
            self.outbox.close()
        await self.close(code)

    def watch(self, run_id: str | None, grants: Collection[str] = ()) -> None:
        """Start watching the socket's access; with `grants` as a visitor's."""
        user, session = self.scope.get("user"), self.scope.get("session")
        key = session.session_key if session is not None else None
        shown = Pass(None, None, run_id, tuple(grants)) if grants else Pass(user.pk, key, run_id)
        access_watch().join(self.end, shown)


class RunConsumer(WatchedConsumer):
    """/ws/runs/<id>/: the client sends {"cursor": N}; deltas follow. See webapp/live/feeds.py."""

    visiting = False
    """Whether access depends on a share link."""

    async def connect(self) -> None:
        """Reject users without access to the run; the response does not reveal whether it exists."""
        self.run_id: str = self.scope["url_route"]["kwargs"]["run_id"]
        user = self.scope.get("user")
        if "\0" in self.run_id:
            await self.close(NOT_FOUND)
        elif await database_sync_to_async(_may_see, thread_sensitive=False)(user, self.run_id):
            await self._begin(())
        elif grants := await database_sync_to_async(self._grants, thread_sensitive=False)():
            self.visiting = True
            await self._begin(grants)
        else:
            await self.close(NOT_FOUND if isinstance(user, User) else UNAUTHENTICATED)

    async def _begin(self, grants: Collection[str]) -> None:
        await self.accept()
        self.outbox = Outbox(self._send, write=None if self.visiting else writer_of(self.scope))
        self.watch(self.run_id, grants)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Handle the client's cursor: the initial one, and later ones after missed deltas."""
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
        access_watch().leave(self.end)
        if self.outbox:
            self.outbox.close()
            feeds().leave(self.run_id, self.outbox)

    async def _send(self, text: str) -> None:
        await self.send(text_data=text_for_visitors(text) if self.visiting else text)

    def _grants(self) -> Collection[str]:
        """Return the followed share links, if one of them opens the run."""
        session = self.scope.get("session")
        grants: Collection[str] = session.get(GRANTS, ()) if session is not None else ()
        return grants if visitor_find(grants, "runs:detail", {"run_id": self.run_id}) else ()


class RunsConsumer(WatchedConsumer):
    """/ws/runs/: summaries of changed runs that are visible to the user."""

    async def connect(self) -> None:
        """Accept every user with a login."""
        user = self.scope.get("user")
        if not isinstance(user, User) or not user.is_authenticated:
            await self.close(UNAUTHENTICATED)
            return
        await self.accept()
        self.outbox = Outbox(self._send, self._come_back)
        runs_feed().join(self.outbox, user.pk)
        self.watch(None)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Ignore messages of the client."""

    async def disconnect(self, code: int) -> None:
        """Leave the feed."""
        access_watch().leave(self.end)
        if self.outbox:
            self.outbox.close()
            runs_feed().leave(self.outbox)

    async def _send(self, text: str) -> None:
        await self.send(text_data=text)

    async def _come_back(self) -> None:
        await self.close(TRY_AGAIN)


class NowhereConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """Every other path."""

    async def connect(self) -> None:
        """Reject the connection in the same way as for an unknown run."""
        await self.close(NOT_FOUND)


def _may_see(user: Any, run_id: str) -> bool:
    return isinstance(user, User) and runs_visible(user).filter(pk=run_id).exists()


def _cursor(text: str | None) -> int | None:
    """Return the N of {"cursor": N}; None for anything else."""
    try:
        message: Any = json.loads(text or "") if len(text or "") <= LONGEST_MESSAGE else None
    except ValueError:
        return None
    cursor = message.get("cursor") if isinstance(message, dict) else None
    return (
        cursor if isinstance(cursor, int) and not isinstance(cursor, bool) and 0 <= cursor < 2**63 else None
    )


websocket_urlpatterns = [
    path("ws/runs/", RunsConsumer.as_asgi()),
    path("ws/runs/<str:run_id>/", RunConsumer.as_asgi()),
    re_path(r"", NowhereConsumer.as_asgi()),
]
