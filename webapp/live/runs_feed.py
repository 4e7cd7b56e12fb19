"""The feed of the runs list: summaries of changed runs, at most once a second, for the users who can see them."""

import asyncio
import logging
from collections.abc import Iterable
from datetime import timedelta
from weakref import WeakKeyDictionary

import orjson
from channels.db import database_sync_to_async
from django.db import Error as DatabaseError
from django.utils import timezone

from webapp.accounts.models import User
from webapp.common.run_changes import ACCESS
from webapp.live.feeds import Outbox, feeds
from webapp.runs.models import ENDED_STATES, Run
from webapp.runs.selectors import run_summary, runs_visible

logger = logging.getLogger(__name__)

INTERVAL = 1.0
LOOK_ANYWAY = 5
"""Number of intervals between checks of all runs, for lost notices."""
LATELY = timedelta(minutes=10)
"""How long after its end a run is checked."""
Marks = dict[str, tuple[object, ...]]


class RunsFeed:
    """Sockets by user, and the runs that have changed."""

    def __init__(self) -> None:
        self._sockets: dict[Outbox, int] = {}
        self._changed: set[str] = set()
        self._marks: Marks | None = None
        self._look_now = False
        self._tell_all = False
        self._task: asyncio.Task[None] | None = None

    def join(self, outbox: Outbox, user_id: int) -> None:
        """Send the socket the changes visible to its user. The first message contains all runs that can change: the page may
        be older than this connection.
        """
        self._sockets[outbox] = user_id
        self._look_now = self._tell_all = True
        if self._task is None:
            feeds().listener.add(self._heard)
            self._task = asyncio.create_task(self._work(), name="runs feed")

    def leave(self, outbox: Outbox) -> None:
        """Remove a socket; the feed ends with the last one."""
        self._sockets.pop(outbox, None)
        if not self._sockets and self._task:
            self._task.cancel()
            self._task, self._marks = None, None
            feeds().listener.remove(self._heard)

    def _heard(self, run_id: str) -> None:
        if run_id == ACCESS:
            return
        if run_id:
            self._changed.add(run_id)
        else:
            self._look_now = True

    async def _work(self) -> None:
        beat = 0
        while True:
            try:
                if self._look_now or beat % LOOK_ANYWAY == 0:
                    self._look_now = False
                    await self._look()
                if self._changed:
                    await self._tell()
            except DatabaseError as error:
                logger.warning("The runs feed waits for the database: %s", error)
            beat += 1
            await asyncio.sleep(INTERVAL)

    async def _look(self) -> None:
        marks = await database_sync_to_async(_marks, thread_sensitive=False)()
        if self._tell_all:
            self._changed |= set(marks)
            self._tell_all = False
        elif self._marks is not None:
            self._changed |= {run for run, mark in marks.items() if self._marks.get(run) != mark}
        self._marks = marks

    async def _tell(self) -> None:
        changed, self._changed = self._changed, set()
        users = set(self._sockets.values())
        try:
            texts = await database_sync_to_async(_texts, thread_sensitive=False)(changed, users)
        except DatabaseError:
            self._changed |= changed
            raise
        for outbox, user in list(self._sockets.items()):
            if text := texts.get(user):
                outbox.put(text, 0)


def _marks() -> Marks:
    """Return a change marker for every run that can change."""
    lately = timezone.now() - LATELY
    lively = Run.objects.exclude(state__in=ENDED_STATES) | Run.objects.filter(ended_at__gt=lately)
    rows = lively.values_list(
        "pk",
        "state",
        "event_count",
        "iteration",
        "name",
        "stop_requested",
        "reason",
        "remedy",
        "finding_counts",
    )
    return {row[0]: row[1:] for row in rows}


def _texts(changed: Iterable[str], users: Iterable[int]) -> dict[int, str]:
    """Return the message by user; users with the same visible runs share one."""
    runs = {
        run.pk: run for run in Run.objects.select_related("project", "owner").filter(pk__in=list(changed))
    }
    summaries = {pk: run_summary(run) for pk, run in runs.items()}
    texts: dict[frozenset[str], str] = {}
    messages: dict[int, str] = {}
    for user in User.objects.filter(pk__in=list(users), is_active=True):
        seen = frozenset(runs_visible(user).filter(pk__in=list(runs)).values_list("pk", flat=True))
        if seen:
            texts.setdefault(seen, _text([summaries[pk] for pk in sorted(seen)]))
            messages[user.pk] = texts[seen]
    return messages


def _text(summaries: list[dict[str, object]]) -> str:
    return orjson.dumps(
        {"type": "runs", "runs": summaries}, default=str, option=orjson.OPT_NON_STR_KEYS
    ).decode()


_by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, RunsFeed] = WeakKeyDictionary()


def runs_feed() -> RunsFeed:
    """Return the feed of the running event loop."""
    return _by_loop.setdefault(asyncio.get_running_loop(), RunsFeed())
