"""The MCP server at /mcp, for assistants (troupe_client/mcp/): streamable HTTP without sessions, a JSON response to every POST.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

import asyncio
from collections.abc import Mapping, MutableMapping
from importlib import import_module
from typing import Any

import httpx

from troupe_client.mcp.rest import package_error
from webapp.live.access import headers_of, is_own_host, is_welcome, scheme_of
from workers.http import App, Receive, Send

PATH = "/mcp"
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
            return await _refuse(send, 405, "send POST", allow="POST")
        if error := package_error():
            return await _refuse(send, 501, error)
        async with self._client(scope, headers) as client:
            token = await client.get("/api/v1/token/")
            document = token.json()
            if token.is_error:
                return await _refuse(send, token.status_code, document["detail"], www_authenticate="Bearer")
            server = await asyncio.to_thread(
                import_module, "troupe_client.mcp.server"
            )  # takes a second, once
            await server.serve_http(client, document["scopes"], scope, receive, send)

    def _client(self, scope: Mapping[str, Any], headers: Mapping[bytes, str]) -> httpx.AsyncClient:
        """Return a client of the REST API in the name of the request."""
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(self._app, client=scope.get("client") or ("127.0.0.1", 0)),
            base_url=f"{scheme_of(scope, headers)}://{headers[b'host']}",
            headers={name.decode(): headers[name] for name in FORWARDED if name in headers},
        )


async def _refuse(send: Send, status: int, detail: str, **headers: str) -> None:
    response = httpx.Response(status, json={"detail": detail}, headers=headers)
    names = [(name.replace(b"_", b"-"), value) for name, value in response.headers.raw]
    await send({"type": "http.response.start", "status": status, "headers": names})
    await send({"type": "http.response.body", "body": response.content})
