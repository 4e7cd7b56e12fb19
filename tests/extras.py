"""Environments with the packages of an extra alone: of links to those that are installed here, or newly installed."""

import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement

from tests.architecture.source import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]


def own_requirements(extra: str) -> list[str]:
    """What an extra lists, without other extras."""
    return [line for line in EXTRAS[extra] if not line.startswith("troupe[")]


def with_parents(extra: str) -> set[str]:
    """The extra and those that it includes."""
    listed = (re.fullmatch(r"troupe\[([\w,]+)\]", line) for line in EXTRAS[extra])
    return {extra}.union(*(with_parents(name) for found in listed if found for name in found[1].split(",")))


@cache
def installed() -> dict[str, Distribution]:
    """The distributions of this environment, by normal name."""
    return {normal(one.metadata["Name"]): one for one in distributions()}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def closure(lines: list[str]) -> set[str]:
    """The installed distributions that requirements bring, by the metadata."""
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [Requirement(line) for line in lines]
    while waiting:
        need = waiting.pop()
        names = {"", *need.extras}
        if need.marker and not any(need.marker.evaluate({"extra": name}) for name in names):
            continue
        at = (normal(need.name), frozenset(need.extras))
        if at in seen or at[0] not in installed():
            continue
        seen.add(at)
        for line in installed()[at[0]].requires or ():
            inner = Requirement(line)
            if inner.marker is None or any(inner.marker.evaluate({"extra": name}) for name in names):
                inner.marker = None
                waiting.append(inner)
    return {name for name, _ in seen}


def requirements(extra: str) -> list[str]:
    """Everything that `pip install troupe[extra]` lists."""
    return PROJECT["dependencies"] + [line for name in with_parents(extra) for line in own_requirements(name)]


@cache
def owners() -> dict[str, set[str]]:
    """The distributions that have files below each name of site-packages."""
    found: dict[str, set[str]] = {}
    for name, one in installed().items():
        for file in one.files or ():
            found.setdefault(file.parts[0], set()).add(name)
    return found


def linked_environment(lines: list[str], folder: Path) -> Path:
    """Make an environment with links to what the requirements bring; returns its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    wanted = closure(lines)
    for name in wanted:
        one = installed()[name]
        for file in one.files or ():
            top = file.parts[0]
            whole = owners()[top] <= wanted
            inner = Path(top) if whole else Path(file)
            if top not in ("..", "__pycache__") and not (site / inner).exists():
                (site / inner).parent.mkdir(parents=True, exist_ok=True)
                (site / inner).symlink_to(Path(str(one.locate_file(str(inner)))))
    return folder / "bin/python"


def installed_environment(extra: str, folder: Path) -> Path:
    """Install an extra of the checkout as the Makefile does; returns the interpreter."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin/python"
    words = ["install.py", "-q", "-c", "constraints.txt", *requirements(extra)]
    subprocess.run([python, *words], cwd=ROOT, check=True)
    return python
