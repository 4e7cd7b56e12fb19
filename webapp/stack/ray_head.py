"""The bundled Ray head: loopback only, protected by a token, ended by its process group, never by `ray stop`."""

import os
import secrets
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

from webapp.stack.ports import free_ports
from workers.launchers.probe import http_answers

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
