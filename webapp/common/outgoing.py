"""HTTP requests to addresses chosen by users. The server sends all such requests with `post`.

Allowed are public addresses and the networks in TROUPE_WEBHOOK_NETWORKS. The resolved address is checked when the connection
is made, and the connection uses exactly that address: a name that changes in between (DNS rebinding) has no effect. `post`
follows no redirects, uses no proxies and does not read the response's body; its time and the size of the headers are bounded.
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

from training_core.config.networks import allowed
from training_core.errors import TroupeError

LONGEST = 2000
TIMEOUT = 10.0
"""Timeout in seconds for each of connecting, sending and reading the headers."""
TOTAL = 20.0
"""Total timeout in seconds: a receiver that responds byte by byte does not block a worker."""


class AddressRefused(TroupeError):
    """The server refuses to connect to an address; the message contains the reason."""


def host_of(address: str) -> str:
    """Return scheme://host:port of an http URL, without resolving the name. Raises AddressRefused."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise AddressRefused(f"this is not a valid address: {error}") from error
    if parts.scheme not in ("http", "https") or not host or len(address) > LONGEST:
        raise AddressRefused("give an address such as https://host/path")
    if not address.isascii() or any(ord(sign) < 33 for sign in address) or parts.username or parts.password:
        raise AddressRefused(
            "an address cannot contain spaces, a user or a password; write other characters as %XX"
        )
    name = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{name}{f':{port}' if port else ''}"


def address_checked(host: str, port: int) -> str:
    """Return the first address of the host if all its addresses are allowed. Raises AddressRefused."""
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise AddressRefused(f"the host name cannot be resolved: {host[:100]}") from error
    addresses = [str(info[4][0]).partition("%")[0] for info in infos]
    for address in addresses:
        if not allowed(ip_address(address), settings.TROUPE_WEBHOOK_NETWORKS):
            raise AddressRefused(
                f"{host[:100]} is {address}, which is not a public address; an administrator may allow its network "
                "with TROUPE_WEBHOOK_NETWORKS"
            )
    return addresses[0]


def post(address: str, headers: Mapping[str, str], body: bytes) -> int:
    """POST to an address accepted by `host_of`; returns the status of the response.

    Raises AddressRefused, httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError.
    """
    host = host_of(address).partition("://")[2]
    sent: dict[bytes | str, bytes | str] = {"Host": host, "Content-Length": str(len(body))}
    sent.update(headers)
    limits = dict.fromkeys(("connect", "read", "write", "pool"), TIMEOUT)
    with (
        httpcore.ConnectionPool(network_backend=CheckedNetwork(time.monotonic() + TOTAL)) as pool,
        pool.stream("POST", address, headers=sent, content=body, extensions={"timeout": limits}) as answer,
    ):
        return int(answer.status)


class CheckedNetwork(httpcore.SyncBackend):
    """Connects only to checked addresses, until `deadline` (time.monotonic()); TLS still verifies the host name."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline

    def connect_tcp(self, host: str, port: int, *args: Any, **kwargs: Any) -> httpcore.NetworkStream:
        """Raises AddressRefused."""
        return _Timed(super().connect_tcp(address_checked(host, port), port, *args, **kwargs), self._deadline)


class _Timed(httpcore.NetworkStream):
    """A stream whose reads and writes have a deadline."""

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
            raise httpcore.ReadTimeout(f"no complete response within {TOTAL:g} s")
        return left if timeout is None else min(timeout, left)
