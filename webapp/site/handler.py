"""The handler of HTTP requests, and the size limits of their bodies, enforced before Django processes a request."""

import asyncio
import re
from collections import deque
from collections.abc import Callable, MutableMapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler, ASGIRequest
from django.http import HttpResponseBase

from webapp.artifacts.contents import LARGEST_FILE
from webapp.experiments.data import LARGEST
from webapp.ingest.batches import MAX_BODY
from workers.http import App, BodyLimit, Receive, Send

CONTENTS = re.compile(
    r"/api/v1/projects/[^/]+/artifact-contents/[^/]+/|(/mlflow(/[^/]+)?)?/api/[^/]+/mlflow-artifacts/artifacts/.+"
)
EVENTS = re.compile(r"/api/v1/runs/[^/]+/events/")
DATA_SET = "/experiments/data/"
FORM = 1_000_000
"""Bytes of an upload's form around its file."""


class BodyLimits:
    """An ASGI wrapper with limits by path: batches of events, contents of artifacts and data sets are larger than forms and API
    calls.
    """

    def __init__(self, app: App) -> None:
        self._events = BodyLimit(app, MAX_BODY, _refusal)
        self._contents = BodyLimit(app, LARGEST_FILE, _refusal)
        self._data_sets = BodyLimit(app, LARGEST + FORM, _refusal)
        self._others = BodyLimit(app, settings.DATA_UPLOAD_MAX_MEMORY_SIZE, _refusal)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Pass the request on with the limit of its path."""
        path = scope.get("path", "")
        limited = self._others
        if EVENTS.fullmatch(path):
            limited = self._events
        elif CONTENTS.fullmatch(path) and scope.get("method") == "PUT":
            limited = self._contents
        elif path == DATA_SET:
            limited = self._data_sets
        await limited(scope, receive, send)


def _refusal(reason: str) -> dict[str, str]:
    return {"code": "too_large", "detail": reason}


THREADS = 24
"""Maximum number of requests whose middleware and views run at the same time, and of threads that are kept. More threads would
mainly wait for each other, because one of them runs Python code at a time.
"""
SLOT = "troupe.slot"
"""Key of a request's scope."""


class RequestThread(ThreadPoolExecutor):
    """An executor with one thread, for one request at a time."""

    def __init__(self) -> None:
        super().__init__(max_workers=1, thread_name_prefix="request")
        self._last: Future[Any] | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call `fn` in the thread, after earlier calls."""
        self._last = super().submit(fn, *args, **kwargs)
        return self._last

    def when_idle(self, call: Callable[[], None]) -> None:
        """Call `call` after the last submitted call: the view of a client that has disconnected may still run."""
        if self._last is None:
            call()
        else:
            self._last.add_done_callback(lambda _: call())


class Slot:
    """One of THREADS places. `release` may be called repeatedly."""

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots: asyncio.Semaphore | None = slots

    def release(self) -> None:
        """Let the next request run."""
        slots, self._slots = self._slots, None
        if slots:
            slots.release()


class ThreadHandler(ASGIHandler):
    """Runs all middleware and the view of a request in one call to a thread, and keeps the threads for later requests.

    Django's own handler starts a thread for each request, which blocks the event loop until the thread runs. It also uses the
    asynchronous form of each middleware, of which most are synchronous inside: it would call the thread, and wait for it, about
    ten times for each request.

    Requests beyond THREADS wait. Sending a response needs no place, so slow downloads do not block other requests.
    """

    def __init__(self) -> None:
        super().__init__()
        self._idle: deque[RequestThread] = deque()
        self._slots = asyncio.Semaphore(THREADS)

    def load_middleware(self, is_async: bool = False) -> None:
        """Build the synchronous chain."""
        super().load_middleware(is_async=False)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request in a thread."""
        await self._slots.acquire()
        slot = Slot(self._slots)
        thread = self._idle.pop() if self._idle else RequestThread()
        try:
            async with ThreadSensitiveContext(executor=thread):
                await self.handle({**scope, SLOT: slot}, receive, send)
        finally:
            slot.release()
            thread.when_idle(lambda: self._release(thread))

    async def get_response_async(self, request: ASGIRequest) -> HttpResponseBase:  # type: ignore[override]  # of this handler
        """Return the response of the chain."""
        try:
            return await sync_to_async(self.get_response)(request)
        finally:
            request.scope[SLOT].release()

    def _release(self, thread: RequestThread) -> None:
        """Keep the thread, or end it. Called from any thread."""
        if len(self._idle) < THREADS:
            self._idle.append(thread)
        else:
            thread.shutdown(wait=False)
