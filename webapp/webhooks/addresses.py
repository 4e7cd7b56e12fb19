"""Where webhooks may go. The server sends them, from inside its network: without a limit, whoever may make a webhook could
reach what only the server can (server-side request forgery: other services on it, cloud metadata at 169.254.169.254).

Public addresses are allowed; loopback, private, link-local and reserved ones only in networks that TROUPE_WEBHOOK_NETWORKS
names. What a name resolves to is checked when the connection is made, and that very address is used: a name that changes
in between gains nothing. Redirects are not followed, proxies are not used, answers are not kept.
"""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit

import httpcore
from django.conf import settings

from training_core.errors import TroupeError

ANY = "any"
TRANSLATED = ip_network("64:ff9b::/96")
"""IPv4 addresses as a NAT64 gateway spells them, private ones too."""
LONGEST = 2000


class AddressRefused(TroupeError):
    """Webhooks do not go there; the message says why."""


def host_of(address: str) -> str:
    """scheme://host:port of an address that a webhook may have, as far as its words tell. Raises AddressRefused."""
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
        if not allowed(ip_address(each)):
            raise AddressRefused(
                f"{host[:100]} is {each}, which is no public address; an administrator may allow its network "
                "with TROUPE_WEBHOOK_NETWORKS"
            )
    return addresses[0]


def allowed(address: IPv4Address | IPv6Address) -> bool:
    """By the networks that are named, and public ones."""
    mapped = getattr(address, "ipv4_mapped", None)
    address = mapped or address
    if ANY in settings.TROUPE_WEBHOOK_NETWORKS:
        return True
    named = (ip_network(each) for each in settings.TROUPE_WEBHOOK_NETWORKS)
    public = address.is_global and not address.is_multicast and address not in TRANSLATED
    return public or any(address in each for each in named)


class CheckedNetwork(httpcore.SyncBackend):
    """Connects to checked addresses only; TLS still asks for the host's own name."""

    def connect_tcp(self, host: str, port: int, *args: Any, **kwargs: Any) -> httpcore.NetworkStream:
        """Raises AddressRefused."""
        return super().connect_tcp(address_checked(host, port), port, *args, **kwargs)
