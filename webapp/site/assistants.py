"""The MCP server at /mcp, for assistants (troupe_client/mcp/): streamable HTTP without sessions, a JSON response to every POST.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

import asyncio
from collections.abc import Mapping, MutableMapping
from importlib import import_module
from io import BytesIO
from typing import Any

import httpx
from rest_framework.exceptions import APIException

from troupe_client.mcp.rest import package_error
from webapp.api.parsers import StrictJSONParser
from webapp.live.access import headers_of, is_own_host, is_welcome, scheme_of
from webapp.site.bodies import Received
from workers.http import App, Message, Receive, Send, answer_json

PATH = "/mcp"
PARSE_ERROR = -32700
"""Of JSON-RPC."""
FORWARDED = (b"authorization", b"x-forwarded-proto")
"""Headers of the assistant's request that its requests to the REST API have, too."""


class Assistants:
    """An ASGI wrapper that answers at PATH; its tools call `app` in this process."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer an assistant, or pass the request on."""
        if scope["path"].rstrip("/") != PATH:
            return await self._app(scope, receive, send)
        headers = headers_of(scope)
        if not is_own_host(headers.get(b"host", "")) or (b"origin" in headers and not is_welcome(scope)):
            return await _refuse(send, 403, "the host or the origin is not allowed: see TROUPE_ALLOWED_HOSTS")
        if scope["method"] != "POST":
            return await _refuse(send, 405, "send POST", {"allow": "POST"})
        if error := package_error():
            return await _refuse(send, 501, error)
        async with self._client(scope, headers) as client:
            token = await client.get("/api/v1/token/")
            document = token.json()
            if token.is_error:
                names = {"www-authenticate": "Bearer"}
                return await _refuse(send, token.status_code, document["detail"], names)
            body = receive.file.read() if isinstance(receive, Received) else b""
            if refused := _refusal_of(body):
                return await answer_json(send, 400, refused, {})
            server = await asyncio.to_thread(
                import_module, "troupe_client.mcp.server"
            )  # takes a second, once
            await server.serve_http(client, document["scopes"], scope, _again(body, receive), send)

    def _client(self, scope: Mapping[str, Any], headers: Mapping[bytes, str]) -> httpx.AsyncClient:
        """Return a client of the REST API in the name of the request."""
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(self._app, client=scope.get("client") or ("127.0.0.1", 0)),
            base_url=f"{scheme_of(scope, headers)}://{headers[b'host']}",
            headers={name.decode(): headers[name] for name in FORWARDED if name in headers},
        )


def _again(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that begins with the body."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Message:
        return messages.pop() if messages else await receive()

    return received


def _refusal_of(body: bytes) -> dict[str, Any] | None:
    """Return the error of a body that is no message: at deep nesting the SDK would fail, and leave an id of NaN without an answer."""
    try:
        StrictJSONParser().parse(BytesIO(body))
    except APIException as refused:
        error = {"code": PARSE_ERROR, "message": str(refused.detail)}
        return {"jsonrpc": "2.0", "id": None, "error": error}
    return None


async def _refuse(send: Send, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
    await answer_json(send, status, {"detail": detail}, headers or {})
