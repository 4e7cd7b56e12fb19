"""Websockets are for pages of this server alone.

Browsers send cookies with every websocket, whatever page opens it, so the page's origin is compared with the address that was asked for:
scheme, host and port. Another service on the same host is another origin. Origins in TROUPE_TRUSTED_ORIGINS are let in too, as for forms.
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
    """An ASGI application behind the comparison; others get 403 before the handshake."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._denier = WebsocketDenier()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> Any:
        """See ASGI."""
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        application = self._application if _welcome(scope, headers) else self._denier
        return await application(scope, receive, send)


def _welcome(scope: Mapping[str, Any], headers: Mapping[bytes, str]) -> bool:
    origin, host = origin_of(headers.get(b"origin", "")), headers.get(b"host", "")
    if origin is None or not validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS):
        return False
    return origin == origin_of(f"{_scheme(scope, headers)}://{host}") or any(
        _trusted(origin, each) for each in settings.CSRF_TRUSTED_ORIGINS
    )


def _scheme(scope: Mapping[str, Any], headers: Mapping[bytes, str]) -> str:
    """As Django's request.scheme: by the proxy's header where one is set."""
    if settings.SECURE_PROXY_SSL_HEADER:
        name, secure = settings.SECURE_PROXY_SSL_HEADER
        said = headers.get(name.removeprefix("HTTP_").replace("_", "-").lower().encode())
        if said is not None:
            return "https" if said.partition(",")[0].strip() == secure else "http"
    return "https" if scope.get("scheme") == "wss" else "http"


def origin_of(text: str) -> Origin | None:
    """Of an Origin header or an address; None for "null" and nonsense."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in PORTS or not host:
        return None
    return parts.scheme, host, port or PORTS[parts.scheme]


def _trusted(origin: Origin, allowed: str) -> bool:
    """https://host, or https://*.host for its subdomains."""
    wanted = origin_of(allowed.replace("://*.", "://", 1))
    if wanted is None or (origin[0], origin[2]) != (wanted[0], wanted[2]):
        return False
    return is_same_domain(origin[1], f".{wanted[1]}") if "://*." in allowed else origin[1] == wanted[1]
