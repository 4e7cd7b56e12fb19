"""Connections that wait for their client: for the head of a request, or for its body.

They cost memory and file descriptors before anybody is known, so their number is bounded, in all and for each address. Beyond a bound
the oldest one ends: a client that sends its request at once is served however many clients never do.
"""

import asyncio
from collections.abc import Callable, Hashable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST, MOST_OF_ADDRESS = 4000, 2000
"""Connections without a request: new ones, and those kept for the next request of their client."""
HEAD_SECONDS = 90.0
"""Time for the head of a request, from the connection or from the last response; above uvicorn's own `timeout_keep_alive`."""


class Waiting:
    """What waits for clients, by the client."""

    def __init__(self, most: int, most_of_client: int) -> None:
        self._most, self._most_of_client = most, most_of_client
        self._ends: dict[Hashable, tuple[Hashable, Callable[[], None]]] = {}
        self._clients: dict[Hashable, dict[Hashable, None]] = {}

    def add(self, which: Hashable, client: Hashable, end: Callable[[], None]) -> None:
        """Add one, and call `end` of the oldest if there are too many: of the client, or in all."""
        self._ends[which] = client, end
        own = self._clients.setdefault(client, {})
        own[which] = None
        if len(own) > self._most_of_client:
            self._end(next(iter(own)))
        elif len(self._ends) > self._most:
            self._end(next(iter(self._ends)))

    def remove(self, which: Hashable) -> None:
        """Remove one, if it is there."""
        client, _ = self._ends.pop(which, (None, None))
        if own := self._clients.get(client):
            own.pop(which, None)
            if not own:
                del self._clients[client]

    def __len__(self) -> int:
        return len(self._ends)

    def _end(self, which: Hashable) -> None:
        _, end = self._ends[which]
        self.remove(which)
        end()


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's HTTP, with bounds on connections without a request and on the time of a head, which uvicorn does not limit."""

    waiting = Waiting(MOST, MOST_OF_ADDRESS)
    """Of the process."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn declares it
        """Wait for the first request."""
        super().connection_made(transport)
        self._timer: asyncio.TimerHandle | None = None
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop_waiting()
        super().connection_lost(exc)

    def on_headers_complete(self) -> None:
        """Start the request."""
        self._stop_waiting()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it is there already."""
        super().on_response_complete()
        if not self.transport.is_closing() and self.cycle.response_complete:
            self._wait()

    def _wait(self) -> None:
        self._stop_waiting()
        address: Any = self.client[0] if self.client else ""
        self._timer = self.loop.call_later(HEAD_SECONDS, self.timeout_keep_alive_handler)
        self.waiting.add(self, address, self.timeout_keep_alive_handler)

    def _stop_waiting(self) -> None:
        self.waiting.remove(self)
        if self._timer:
            self._timer.cancel()
