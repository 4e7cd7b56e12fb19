"""What the HTTP servers of Troupe share: in the web application and in the workers, a limit on the size of request bodies, which
are refused before they fill memory or disk, and cells of CSV files that may be opened in a spreadsheet; in the workers, the
socket and the private file with the address.
"""

import json
import os
import socket
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]
"""An ASGI application. Its arguments are untyped, because frameworks declare them differently."""


class BodyLimit:
    """ASGI middleware that answers 413 to bodies of more than `most` bytes, by Content-Length or by the received bytes.

    `refusal` returns the JSON of the response for a message, in the application's format of errors.
    """

    def __init__(self, app: App, most: int, refusal: Callable[[str], Any]) -> None:
        self._app = app
        self._most = most
        self._refusal = refusal

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Handle one connection; see the ASGI specification."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif content_length(scope) > self._most:
            await self._refuse(send)
        else:
            await self._counted(scope, receive, send)

    async def _counted(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Count received bytes. Beyond the limit the application receives a disconnect, and its response is discarded."""
        received, responding = 0, False

        async def receive_counted() -> Message:
            nonlocal received
            message = await receive() if received <= self._most else {"type": "http.disconnect"}
            received += len(message.get("body", b""))
            return message if received <= self._most else {"type": "http.disconnect"}

        async def send_unless_refused(message: Message) -> None:
            nonlocal responding
            if received <= self._most or responding:
                responding = True
                await send(message)

        try:
            await self._app(scope, receive_counted, send_unless_refused)
        except Exception:
            if received <= self._most:
                raise
        if received > self._most and not responding:
            await self._refuse(send)

    async def _refuse(self, send: Send) -> None:
        refusal = self._refusal(f"the body of a request may have at most {self._most} bytes")
        await answer_json(send, 413, refusal, {"connection": "close"})


async def answer_json(
    send: Send, status: int, document: Any, headers: Mapping[str, str], *, more_body: bool = False
) -> None:
    """Send a response; with `more_body` an empty message ends it."""
    body = json.dumps(document).encode()
    named = {"content-type": "application/json", "content-length": str(len(body)), **headers}
    pairs = [(name.encode(), value.encode()) for name, value in named.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body, "more_body": more_body})


def content_length(scope: Mapping[str, Any]) -> int:
    """Content-Length in bytes; 0 without the header, as with chunked bodies, which are counted instead."""
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    return int(lengths[0]) if lengths and lengths[0].isdigit() else 0


def listen(host: str, port: int) -> socket.socket:
    """A socket bound to a port, 0 for any free one. Raises OSError if the port is in use."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    return listener


def write_private(path: Path, document: Any) -> None:
    """Write JSON atomically to a file that only its owner may read, from the start."""
    draft = path.with_suffix(f".{os.getpid()}")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(document, file, indent=1)
    draft.replace(path)


def cell_text(value: object) -> object:
    """Return the value of a cell. Text that a spreadsheet would evaluate as a formula gets an apostrophe in front.

    Numbers, also those written as text, are unchanged. See https://owasp.org/www-community/attacks/CSV_Injection.
    """
    if isinstance(value, str) and value.startswith(FORMULA) and not _is_number(value):
        return f"'{value}"
    return value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
