"""Health checks of the containers, run as they are written: against a process that is up, and one that is down."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import redis

from tests.architecture.source import ROOT
from tests.conftest import wait_until
from tests.docker.test_compose import SERVICES
from tests.docker.test_images import DOCKER, values
from webapp.stack.worker_probe import KEY, note_alive

TOKEN = "5f0c"


def check_of(service: str) -> list[str]:
    """The words of a health check of compose.yaml."""
    kind, *command = SERVICES[service]["healthcheck"]["test"]
    assert kind == "CMD"
    return list(command)


def check_of_web_image() -> list[str]:
    """The words of the HEALTHCHECK of Dockerfile.web."""
    return list(json.loads(values(DOCKER / "Dockerfile.web", "HEALTHCHECK")[0].partition(" CMD ")[2]))


def healthy(command: list[str], **variables: str) -> bool:
    """Run a check as an engine does, with this Python."""
    assert command[0] == "python"
    done = subprocess.run(
        [sys.executable, *command[1:]], cwd=ROOT, env=os.environ | variables, check=False, timeout=60
    )
    return done.returncode == 0


def at_port(command: list[str], port: int) -> list[str]:
    """The same check of a server that listens on another port of this machine."""
    return [word.replace(":8000/", f":{port}/").replace(":8265/", f":{port}/") for word in command]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class _Answers(BaseHTTPRequestHandler):
    """200 for the token below /api/jobs/, 503 at /readyz."""

    def do_GET(self) -> None:
        jobs = self.path == "/api/jobs/" and self.headers.get("Authorization") == f"Bearer {TOKEN}"
        self.send_response(200 if jobs else 503 if self.path == "/readyz" else 401)
        self.end_headers()

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    """Port of a small server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("name", [name for name in SERVICES if "test" in SERVICES[name]["healthcheck"]])
def test_no_word_of_a_check_has_a_space(name: str) -> None:
    """Some engines split words at their spaces."""
    assert not [word for word in check_of(name) if " " in word]


def test_the_check_of_ray_gives_its_token(port: int) -> None:
    command = at_port(check_of("ray"), port)
    assert healthy(command, RAY_AUTH_TOKEN=TOKEN)
    assert not healthy(command, RAY_AUTH_TOKEN="another")


def test_a_server_that_is_not_ready_is_not_healthy(port: int) -> None:
    assert not healthy(at_port(check_of("web"), port))


def test_a_proxy_of_the_environment_is_not_asked(port: int) -> None:
    command = at_port(check_of("ray"), port)
    assert healthy(command, RAY_AUTH_TOKEN=TOKEN, http_proxy=f"http://127.0.0.1:{free_port()}", no_proxy="")


@pytest.mark.parametrize("name", ["web", "ray"])
def test_nobody_there_is_not_healthy(name: str) -> None:
    assert not healthy(at_port(check_of(name), free_port()))


@pytest.mark.extended
def test_the_web_server_is_healthy_while_it_is_up() -> None:
    port = free_port()
    command = at_port(check_of_web_image(), port)
    child = subprocess.Popen(
        [sys.executable, "-m", "webapp.stack.serve", f"127.0.0.1:{port}"], cwd=ROOT, stderr=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: healthy(command), [child])
    finally:
        child.terminate()
        child.wait(60)
    assert not healthy(command)


@pytest.mark.parametrize("name", ["worker", "beat"])
def test_the_sign_of_life_is_found_while_it_is_fresh(name: str, servers: object) -> None:
    url = os.environ["REDIS_URL"]
    command = check_of(name)
    with redis.Redis.from_url(url) as client:
        client.delete(KEY)
        assert not healthy(command, REDIS_URL=url)
        note_alive(client)
        assert healthy(command, REDIS_URL=url)
        client.delete(KEY)
    assert not healthy(command, REDIS_URL=f"redis://127.0.0.1:{free_port()}/0")
