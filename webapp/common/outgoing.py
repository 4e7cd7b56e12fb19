"""HTTP requests to addresses that users have named. Every such request of the server goes through `post`.

Public addresses are allowed, and networks that TROUPE_WEBHOOK_NETWORKS names. The address that a name resolves to is checked
when the connection is made, and that very address is used: a name that changes in between gains nothing. `post` follows no
redirects, uses no proxies and does not read the answer's body; its time and the size of the answer's head are bounded.
"""

import socket
import ssl
import time
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import httpcore
from django.conf import settings

from training_core.errors import TroupeError
from webapp.common.networks import allowed

LONGEST = 2000
TIMEOUT = 10.0
"""Seconds for each of connecting, sending and the answer's head."""
TOTAL = 20.0
"""Seconds for all of it: a receiver that answers byte by byte holds no worker."""


class AddressRefused(TroupeError):
    """The server does not connect there; the message says why."""


def host_of(address: str) -> str:
    """scheme://host:port of an http address, as far as its words tell. Raises AddressRefused."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise AddressRefused(f"this is no address: {error}") from error
    if parts.scheme not in ("http", "https") or not host or len(address) > LONGEST:
        raise AddressRefused("give an address such as https://host/path")
    if not address.isascii() or any(ord(sign) < 33 for sign in address) or parts.username or parts.password:
        raise AddressRefused("an address has no spaces, no user and no password; write other signs as %XX")
    name = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{name}{f':{port}' if port else ''}"


def address_checked(host: str, port: int) -> str:
    """The first address that the host has, if all that it has are allowed. Raises AddressRefused."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise AddressRefused(f"the name of the host is not known: {host[:100]}") from error
    addresses = [str(each[4][0]).partition("%")[0] for each in found]
    for each in addresses:
        if not allowed(ip_address(each), settings.TROUPE_WEBHOOK_NETWORKS):
            raise AddressRefused(
                f"{host[:100]} is {each}, which is no public address; an administrator may allow its network "
                "with TROUPE_WEBHOOK_NETWORKS"
            )
    return addresses[0]


def post(address: str, headers: Mapping[str, str], body: bytes) -> int:
    """POST to an address that `host_of` accepts; the answer's status.

    Raises AddressRefused, httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError.
    """
    host = host_of(address).partition("://")[2]
    sent: dict[bytes | str, bytes | str] = {"Host": host, "Content-Length": str(len(body))}
    sent.update(headers)
    limits = dict.fromkeys(("connect", "read", "write", "pool"), TIMEOUT)
    with (
        httpcore.ConnectionPool(network_backend=CheckedNetwork(time.monotonic() + TOTAL)) as pool,
        pool.stream(
            "POST",
            address,
            headers=sent,
            content=body,
            extensions={"timeout": limits},
        ) as answer,
    ):
        return int(answer.status)


class CheckedNetwork(httpcore.SyncBackend):
    """Connects to checked addresses only, until `deadline` (time.monotonic()); TLS still asks for the host's own name."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline

    def connect_tcp(self, host: str, port: int, *args: Any, **kwargs: Any) -> httpcore.NetworkStream:
        """Raises AddressRefused."""
        return _Timed(super().connect_tcp(address_checked(host, port), port, *args, **kwargs), self._deadline)


class _Timed(httpcore.NetworkStream):
    """A stream whose reads and writes end at a deadline."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: float) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._left(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        inner = self._stream.start_tls(ssl_context, server_hostname, self._left(timeout))
        return _Timed(inner, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    def _left(self, timeout: float | None) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout(f"no whole answer within {TOTAL:g} s")
        return left if timeout is None else min(timeout, left)
