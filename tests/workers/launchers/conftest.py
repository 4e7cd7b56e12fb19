"""A real Ray head for the tests that are marked `ray`, and a driver that does little."""

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.workers.running import RAY_VARIABLES
from webapp.stack.servers import free_ports
from workers.launchers.launcher import Launch

SCRIPT = """
import os, signal, sys, time
from pathlib import Path
folder = Path(sys.argv[sys.argv.index("--folder") + 1])
(folder / "said").write_text("\\n".join([" ".join(sys.argv[1:]),
    os.environ.get("OMP_NUM_THREADS", ""), os.environ.get("DATABASE_URL", ""), os.environ.get("PYTHONPATH", "")]))
print("\\x1b[31mhello\\x1b[0m from the driver", flush=True)
task = (folder / "task").read_text()
if task == "fail":
    sys.exit(7)
if task == "stubborn":
    signal.signal(signal.SIGTERM, lambda *_: None)
if task == "polite":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
(folder / "ready").touch()
end = time.monotonic() + 600
while task != "end" and time.monotonic() < end:
    time.sleep(0.02)
"""


@dataclass(frozen=True)
class RayHead:
    """Where it is reached."""

    address: str
    token: str


def until(condition: Callable[[], object], seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "did not come about"
        time.sleep(0.02)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A stand-in for workers.run that takes the same arguments."""
    path = tmp_path / "driver.py"
    path.write_text(SCRIPT)

    def command(launch: Launch, python: str) -> list[str]:
        return [sys.executable, str(path), *driver_command(launch, python)[3:]]

    from workers.launchers.launcher import driver_command

    monkeypatch.setattr("workers.launchers.ray_jobs.driver_command", command)
    monkeypatch.setattr("workers.launchers.local_process.driver_command", command)
    return path


@pytest.fixture
def launch(tmp_path: Path) -> Callable[[str], Launch]:
    """An attempt whose driver is to end, fail, run on, be polite or stubborn."""

    def make(task: str, attempt: int = 1) -> Launch:
        folder = tmp_path / "run folder"
        folder.mkdir(exist_ok=True)
        (folder / "task").write_text(task)
        name = f"r{secrets.token_hex(4)}"
        return Launch(name, attempt, folder, tmp_path, "http://127.0.0.1:1/events/", tmp_path / "ck")

    return make


@pytest.fixture(scope="session")
def ray_head() -> Iterator[RayHead]:
    """A head with two cores, its own ports, folder and token. Ended by its pid."""
    (dashboard, port, clients), token = free_ports(3), secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix="tr") as folder:
        command = [
            str(Path(sys.executable).parent / "ray"), "start", "--head", "--block", "--node-ip-address=127.0.0.1",
            f"--port={port}", "--min-worker-port=0", "--max-worker-port=0", "--dashboard-host=127.0.0.1",
            f"--dashboard-port={dashboard}", "--num-cpus=2", "--object-store-memory=80000000", "--disable-usage-stats",
            f"--temp-dir={folder}", f"--ray-client-server-port={clients}", "--dashboard-agent-listen-port=0",
        ]  # fmt: skip
        variables = os.environ | RAY_VARIABLES | {"RAY_AUTH_TOKEN": token, "OMP_NUM_THREADS": "1"}
        heads: list[subprocess.Popen[bytes]] = []

        def up() -> bool:
            """Whether it answers; one that ended is started again: Ray gives up where its node is not up within 30 s."""
            if not heads or heads[-1].poll() is not None:
                heads.append(
                    subprocess.Popen(
                        command, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                    )
                )
            return _answers(address, token)

        address = f"http://127.0.0.1:{dashboard}"
        try:
            until(up)
            until(lambda: _starts_jobs(address, token))
            yield RayHead(address, token)
        finally:
            heads[-1].send_signal(signal.SIGTERM)
            heads[-1].wait(300)


def _answers(address: str, token: str) -> bool:
    try:
        return (
            httpx.get(f"{address}/api/jobs/", headers={"Authorization": f"Bearer {token}"}).status_code == 200
        )
    except httpx.HTTPError:
        return False


def _starts_jobs(address: str, token: str) -> bool:
    """Whether the process that starts jobs is there: it comes after the dashboard answers."""
    headers = {"Authorization": f"Bearer {token}"}
    job = {"entrypoint": "true"}
    return httpx.post(f"{address}/api/jobs/", json=job, headers=headers, timeout=60).status_code == 200
