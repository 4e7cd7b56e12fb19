"""The client in an environment of its own: `pip install` of it, without pins, brings neither torch, Ray nor Django."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.architecture.source import PACKAGES, ROOT
from tests.workers.reporting.conftest import Ingest

pytestmark = pytest.mark.extended
HEAVY = ("torch", "ray", "django", "celery", "transformers", "numpy")
Call = Callable[..., subprocess.CompletedProcess[str]]
PROGRAM = """
import troupe

troupe.init(project="lab", name="from outside", config={"lr": 0.5}, id="abcdefgh23")
troupe.log({"loss": 0.25})
troupe.log_episode([{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}], reward=1.0)
assert not troupe.should_stop()
assert troupe.finish()
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new virtual environment with the client, installed from a copy of the checkout."""
    folder = tmp_path_factory.mktemp("client")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    pip = [folder / "venv/bin/python", "-m", "pip", "--disable-pip-version-check"]
    probe = subprocess.run(
        [*pip, "download", "--no-deps", "-d", folder, "setuptools"], capture_output=True, text=True
    )
    if probe.returncode:
        pytest.skip(f"pip reaches no package index: {probe.stderr.strip().splitlines()[-1]}")
    source = folder / "source"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "troupe.py"):
        shutil.copy(ROOT / name, source)
    subprocess.run([*pip, "install", "-q", f"{source}[client]"], cwd=folder, check=True)
    return folder / "venv"


@pytest.fixture
def call(environment: Path, tmp_path: Path) -> Call:
    """Run a program of the environment in an empty folder, with variables of Troupe's as given and no others."""

    def called(program: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return subprocess.run(
            [environment / "bin" / program, *words],
            cwd=tmp_path,
            env={**kept, "COLUMNS": "200", "TROUPE_HOME": str(tmp_path / "home"), **variables},
            capture_output=True,
            text=True,
        )

    return called


def test_the_environment_has_none_of_the_servers_packages(call: Call) -> None:
    code = f"from importlib.util import find_spec; print([name for name in {HEAVY} if find_spec(name)])"
    assert call("python", "-c", code).stdout.strip() == "[]"


def test_every_command_is_listed(call: Call) -> None:
    done = call("troupe", "--help")
    assert done.returncode == 0, done.stderr
    assert {"launch", "runs", "watch", "sync", "doctor"} <= set(done.stdout.split())


def test_a_launch_without_a_server_names_the_remedy(call: Call) -> None:
    unknown = call("troupe", "launch", "plan_path_duo", "run.seed=1")
    assert unknown.returncode == 1
    assert "TROUPE_URL" in unknown.stderr and "Traceback" not in unknown.stderr
    away = call("troupe", "launch", "plan_path_duo", TROUPE_URL="http://127.0.0.1:9", TROUPE_TOKEN="t")
    assert away.returncode == 1
    assert "does not answer" in away.stderr and "Traceback" not in away.stderr


def test_a_bad_config_is_refused_before_any_server_is_asked(call: Call) -> None:
    done = call("troupe", "launch", "plan_path_duo", "run.sed=1", "--dry-run")
    assert done.returncode == 1 and "there is no such field" in done.stderr


@pytest.mark.parametrize(
    "words", [("up",), ("run", "plan_path_duo"), ("buffer", "serve"), ("model", "add", "smollm2")]
)
def test_commands_of_the_server_name_the_extra(call: Call, words: tuple[str, ...]) -> None:
    done = call("troupe", *words)
    assert done.returncode == 1
    assert "pip install '.[server]'" in done.stderr and "Traceback" not in done.stderr


def test_the_doctor_reports_the_client_as_sound(call: Call) -> None:
    done = call("troupe", "doctor")
    assert done.returncode == 0, done.stdout
    assert "server: is not installed" in done.stdout and "torch version" not in done.stdout


def test_a_program_reports_its_run(call: Call, ingest: Ingest, url: str) -> None:
    done = call("python", "-c", PROGRAM, TROUPE_URL=url.removesuffix("/events/"), TROUPE_TOKEN=ingest.token)
    assert done.returncode == 0, done.stderr
    assert [begun["config"] for begun in ingest.begun] == [{"lr": 0.5}]
    seen = [event for event in ingest.events() if event["type"] != "heartbeat"]
    assert [event["type"] for event in seen] == ["status", "metrics", "episode", "status"]
    assert seen[-1]["state"] == "finished"
