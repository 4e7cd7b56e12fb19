"""Foreign clients and frameworks in environments of their own, because they do not fit beside Troupe's packages."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pythons import find_interpreters

PACKAGES = {
    "anthropic": ("anthropic",),
    "openai": ("openai",),
    "agents": ("openai-agents",),
    "langgraph": ("langgraph", "langchain", "langchain-openai"),
    "smolagents": ("smolagents[openai]",),
    "ag2": ("ag2[openai]>=1",),
    "crewai": ("crewai",),
    "verifiers": ("verifiers==0.3.1",),
    "tasksets": ("verifiers[openenv,ta]==0.3.1",),
    "harbor": ("verifiers[harbor]==0.3.1",),
    "mlflow": ("mlflow>=3.17",),
    "mlflow-2": ("mlflow<3", "sqlalchemy<2.1"),
    "mlflow-trainers": (
        "mlflow",
        "transformers",
        "accelerate",
        "stable-baselines3",
        "lightning",
        "torch==2.13.0",
    ),
    "trl": ("trl", "torch==2.13.0"),
}
"""The packages of an environment, by its name."""
PYTHONS = {"harbor": "3.12"}
"""The Python of an environment whose packages need a newer one."""
CLIENT = ("httpx", "orjson", "psutil", "pydantic", "rich", "tomlkit", "typer", "zstandard")
"""Dependencies of Troupe's client."""
MADE: dict[str, Path] = {}
"""Environments that this session has made, by name."""


def client_python(name: str, folder: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment: TROUPE_TEST_ENVIRONMENTS/name if there is one, else one made once in a session.

    Skips the test if there is no interpreter for it, or pip reaches no package index.
    """
    made = MADE.get(name) or Path(os.environ.get("TROUPE_TEST_ENVIRONMENTS", "/nowhere")) / name
    if not made.exists():
        made, base = folder.mktemp(name) / "environment", sys.executable
        if needed := PYTHONS.get(name):
            base = find_interpreters([needed]).get(needed) or pytest.skip(f"there is no Python {needed}")
        subprocess.run([base, "-m", "venv", made], check=True)
        pip = [made / "bin/python", "-m", "pip", "--disable-pip-version-check", "install", "-q"]
        done = subprocess.run([*pip, *PACKAGES[name], *CLIENT], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"pip reaches no package index: {done.stderr.strip().splitlines()[-1]}")
        MADE[name] = made
    return made / "bin/python"


def node_programs(package: str, folder: pytest.TempPathFactory) -> Path:
    """The folder with a package's programs: of TROUPE_TEST_ENVIRONMENTS/node if it is there, else installed by npm.

    Skips the test without npm, or if it reaches no registry.
    """
    made = Path(os.environ.get("TROUPE_TEST_ENVIRONMENTS", "/nowhere")) / "node"
    if not made.exists():
        if not shutil.which("npm"):
            pytest.skip("there is no npm")
        made = folder.mktemp("node")
        npm = ["npm", "install", "--no-audit", "--no-fund", "--prefix", made, package]
        done = subprocess.run(npm, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"npm reaches no registry: {done.stderr.strip().splitlines()[-1]}")
    return made / "node_modules/.bin"
