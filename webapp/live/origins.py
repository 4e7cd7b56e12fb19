"""Accepts websockets only from pages of this server.

Browsers send cookies with every websocket, regardless of the page that opens it, so the page's origin is compared with the
requested scheme, host and port. Another service on the same host has another origin. TROUPE_TRUSTED_ORIGINS are accepted too.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.http.request import split_domain_port, validate_host
from django.utils.http import is_same_domain

PORTS = {"http": 80, "https": 443}
Origin = tuple[str, str, int]
"""Scheme, host, port."""


class SameOrigin:
    """An ASGI wrapper that compares the origin; other origins get 403 before the handshake."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._denier = WebsocketDenier()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> Any:
        """Accept a connection of an allowed origin; reject others."""
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        application = self._application if _welcome(scope, headers) else self._denier
        return await application(scope, receive, send)


def _welcome(scope: Mapping[str, Any], headers: Mapping[bytes, str]) -> bool:
    origin, host = origin_of(headers.get(b"origin", "")), headers.get(b"host", "")
    if origin is None or not validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS):
        return False
    return origin == origin_of(f"{_scheme(scope, headers)}://{host}") or any(
        _trusted(origin, trusted) for trusted in settings.CSRF_TRUSTED_ORIGINS
    )


def _scheme(scope: Mapping[str, Any], headers: Mapping[bytes, str]) -> str:
    """Return the scheme as Django's request.scheme: from the proxy's header if one is configured."""
    if settings.SECURE_PROXY_SSL_HEADER:
        name, secure = settings.SECURE_PROXY_SSL_HEADER
        header = headers.get(name.removeprefix("HTTP_").replace("_", "-").lower().encode())
        if header is not None:
            return "https" if header.partition(",")[0].strip() == secure else "http"
    return "https" if scope.get("scheme") == "wss" else "http"


def origin_of(text: str) -> Origin | None:
    """Return the origin of an Origin header or a URL; None for "null" and invalid ones."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in PORTS or not host:
        return None
    return parts.scheme, host, port or PORTS[parts.scheme]


def _trusted(origin: Origin, allowed: str) -> bool:
    """Whether the origin matches https://host, or https://*.host for its subdomains."""
    wanted = origin_of(allowed.replace("://*.", "://", 1))
    if wanted is None or (origin[0], origin[2]) != (wanted[0], wanted[2]):
        return False
    return is_same_domain(origin[1], f".{wanted[1]}") if "://*." in allowed else origin[1] == wanted[1]
