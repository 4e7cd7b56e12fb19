"""Addresses that the server and its runs may connect to if a user chose the target.

The server sends from inside its network. Without this limit a user could reach services that only the server can reach: other
services on the host, machines of the private network, cloud metadata at 169.254.169.254 (server-side request forgery).

This module imports nothing heavy: the process that sends channel messages uses it too.
"""

import re
from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

ANY = "any"
OWN_MACHINE = ("127.0.0.1", "localhost", "::1")
"""Hosts of addresses of this machine, which runs may always reach."""
UNICAST = ip_network("2000::/3")
"""Public IPv6 addresses. All others are local, reserved, or encode an IPv4 address (NAT64, IPv4-compatible)."""
SIX_TO_FOUR = ip_network("2002::/16")
"""IPv6 addresses that a 6to4 router translates to their embedded IPv4 address."""

_NUMERIC = re.compile(r"\d+|0x[0-9a-f]*")
"""The last part of a numeric address, such as 2130706433 or 127.0x1. https://url.spec.whatwg.org/#ends-in-a-number-checker"""
_LOCAL = (
    ".localhost",
    ".local",
    ".localdomain",
    ".internal",
    ".intranet",
    ".lan",
    ".home.arpa",
    ".corp",
    ".svc",
)


def allowed(address: IPv4Address | IPv6Address, networks: Collection[str]) -> bool:
    """Whether the address is public or in one of `networks` (CIDR notation, or "any")."""
    address = getattr(address, "ipv4_mapped", None) or address
    if ANY in networks:
        return True
    return _public(address) or any(address in ip_network(network) for network in networks)


def literal_allowed(address: str, networks: Collection[str]) -> bool:
    """The same for text. False for a name: only a numeric address determines the target of a connection."""
    try:
        return allowed(ip_address(address.partition("%")[0]), networks)
    except ValueError:
        return False


def host_allowed(host: str, networks: Collection[str]) -> bool:
    """Whether the host of a URL may be public, or is in one of `networks`, as far as its text says: a name is not resolved.

    False for names without a dot and for those of local networks, for unusual forms of numeric addresses, and for no host.
    """
    if ANY in networks or literal_allowed(host, networks):
        return True
    name = host.lower().rstrip(".")
    numeric = ":" in name or _NUMERIC.fullmatch(name.rpartition(".")[2])
    return not numeric and "." in name and not name.endswith(_LOCAL)


def _public(address: IPv4Address | IPv6Address) -> bool:
    if not address.is_global or address.is_multicast:
        return False
    return address.version == 4 or (address in UNICAST and address not in SIX_TO_FOUR)
