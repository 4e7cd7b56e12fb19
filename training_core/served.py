"""What differs in a process that a server started: relative paths in a config are resolved only below its data folder, and
private networks are reached only as the server's owner has named them.
"""

import os
import socket
from ipaddress import ip_address
from urllib.parse import urlsplit

from training_core.config.networks import OWN_MACHINE, allowed

VARIABLE = "TROUPE_SERVED"
"""Environment variable that launchers set to 1."""
ADDRESSES, NETWORKS = "TROUPE_KEY_ADDRESSES", "TROUPE_RUN_NETWORKS"
"""Environment variables of the server that launchers pass to runs."""


def served() -> bool:
    """Whether a server started this process."""
    return os.environ.get(VARIABLE, "") == "1"


def address_refused(url: str) -> str:
    """Return why a process of a server may not connect to the address of a judge, an engine or a buffer; empty if it may.

    The check of a config does not resolve names, and a name may resolve differently here.
    """
    parts = urlsplit(url)
    if (
        not served()
        or parts.hostname in OWN_MACHINE
        or f"{parts.scheme}://{parts.netloc}" in _words(ADDRESSES)
    ):
        return ""
    try:
        infos = socket.getaddrinfo(parts.hostname, parts.port or parts.scheme, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ""  # the connection reports it
    for address in {str(info[4][0]).partition("%")[0] for info in infos}:
        if not allowed(ip_address(address), _words(NETWORKS)):
            return f"{parts.hostname} is {address}, in a network that {NETWORKS} does not name"
    return ""


def _words(variable: str) -> list[str]:
    return [word.strip() for word in os.environ.get(variable, "").split(",") if word.strip()]
