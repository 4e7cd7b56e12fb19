"""Short jobs in processes of a real prefork server."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.conftest import wait_until
from workers.prefork.client import SOCKET

pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def fork_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, psutil.Process]]:
    socket = tmp_path_factory.mktemp("fork") / "socket"
    command = [sys.executable, "-m", "workers.prefork.server", str(socket), "0"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin and server.stdout
        assert [server.stdout.readline() for _ in range(2)] == [b"listening\n", b"ready\n"]
        yield socket, psutil.Process(server.pid)
        server.stdin.close()
        assert server.wait(60) == 0


def job(folder: Path, socket: Path | None) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "workers.prefork.client", "job", str(folder), "--home", str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **({SOCKET: str(socket)} if socket else {})}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def opened_for_writing(pipe: Path, descriptors: list[int]) -> bool:
    """Whether a pipe has a reader; its other end is then open, and nothing is written."""
    with suppress(OSError):
        descriptors.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    return bool(descriptors)


def test_status_and_output_are_those_of_the_job(
    tmp_path: Path, fork_server: tuple[Path, psutil.Process]
) -> None:
    socket, _ = fork_server
    forked, started, unserved = job(tmp_path, socket), job(tmp_path, None), job(tmp_path, tmp_path / "nobody")
    messages = {process.communicate(timeout=90)[1] for process in (forked, started, unserved)}
    assert len(messages) == 1, messages
    (message,) = messages
    assert "No such file" in message and str(tmp_path) in message
    assert [process.returncode for process in (forked, started, unserved)] == [2, 2, 2]


def test_a_stopped_job_takes_its_forked_process_along(
    tmp_path: Path, fork_server: tuple[Path, psutil.Process]
) -> None:
    socket, server = fork_server
    (tmp_path / "request.json").write_text("{}")
    os.mkfifo(tmp_path / "config.toml")  # a job that reads it waits for a writer
    process = job(tmp_path, socket)
    descriptors: list[int] = []
    wait_until(lambda: opened_for_writing(tmp_path / "config.toml", descriptors), [process])
    (worker,) = server.children()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    _, alive = psutil.wait_procs([worker], timeout=60)
    os.close(descriptors[0])
    assert alive == [], "it waits for the pipe unless it is ended"
