"""Free ports on this machine."""

import random
import socket

from webapp.stack.errors import StackError

TRIES = 100
PRIVATE = range(20000, 32000)
"""Below the kernel's ephemeral ports, above the ports that Ray gives to its own workers."""


def listen_near(host: str, port: int) -> socket.socket:
    """Return a listening socket on the first free port from `port` on. Raises StackError if there is none.

    The socket is passed to the web server and stays open: while the server restarts, browsers wait instead of being refused.
    """
    for candidate in range(port, min(port + TRIES, 65536)):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, candidate))
            listener.listen(512)
        except PermissionError as error:
            listener.close()
            raise StackError(
                f"Port {candidate} of {host} needs more privileges; set TROUPE_PORT above 1023"
            ) from error
        except OSError as error:
            listener.close()
            if error.errno not in (98, 48):  # EADDRINUSE on Linux, macOS
                raise StackError(f"TROUPE_HOST={host}: cannot listen there: {error}") from error
        else:
            return listener
    raise StackError(f"Ports {port} to {port + TRIES - 1} of {host} are all in use; set TROUPE_PORT")


def free_ports(count: int) -> list[int]:
    """Return distinct unused ports of 127.0.0.1."""
    ports: list[int] = []
    for port in random.sample(PRIVATE, len(PRIVATE)):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == count:
            return ports
    raise StackError(f"No {count} free ports between {PRIVATE.start} and {PRIVATE.stop}")
