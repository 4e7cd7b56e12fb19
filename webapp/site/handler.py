"""The handler of HTTP requests: threads for the middleware and the views of requests whose bodies are complete."""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.core.handlers.asgi import ASGIHandler, ASGIRequest
from django.http import HttpResponseBase

from webapp.site.bodies import Received

THREADS = 24
"""Maximum number of requests whose middleware and views run at the same time, and of threads that are kept. More threads would
mainly wait for each other, because one of them runs Python code at a time.
"""
MONITORING = ("/healthz", "/readyz")
"""Addresses with places of their own, two each: they answer while all others are taken."""
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
    """A place among those of a semaphore. `release` may be called repeatedly."""

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
        self._monitoring = {path: asyncio.Semaphore(2) for path in MONITORING}

    def load_middleware(self, is_async: bool = False) -> None:
        """Build the synchronous chain."""
        super().load_middleware(is_async=False)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request in a thread."""
        slots = self._monitoring.get(scope["path"], self._slots)
        await slots.acquire()
        slot = Slot(slots)
        thread = self._idle.pop() if self._idle else RequestThread()
        try:
            async with ThreadSensitiveContext(executor=thread):
                await self.handle({**scope, SLOT: slot}, receive, send)
        finally:
            slot.release()
            thread.when_idle(lambda: self._release(thread))

    async def read_body(self, receive: Any) -> Any:
        """Return the body, which is there."""
        return receive.file if isinstance(receive, Received) else await super().read_body(receive)

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
