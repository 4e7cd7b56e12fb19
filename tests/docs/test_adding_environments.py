"""The examples of CONTRIBUTING.md: an environment of each kind and a network, from their files to a run that trains."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from tests.docs.test_contributing import section


@dataclass(frozen=True)
class Example:
    """An example of CONTRIBUTING.md, and the short run that tests it."""

    heading: str
    package: str
    folder: str
    preset: str
    overrides: tuple[str, ...]


ENVIRONMENT = Example(
    "Add an environment",
    "llm/environments",
    "larger_number",
    "larger_number",
    ("run.iterations=2", "rollout.tasks=8", "evaluation.episodes=8"),
)
NETWORK_ENVIRONMENT = Example(
    "Add an environment for small networks", "marl/environments", "echo", "echo_mappo", ("run.iterations=5",)
)
NETWORK = Example(
    "Add a network",
    "marl/networks",
    "residual",
    "spread_toy",
    ("policies.agents.network.type=residual", "run.iterations=2"),
)


def files_of(example: Example) -> dict[str, list[str]]:
    """The fenced blocks below each line that begins with a file's name and ends with a colon."""
    blocks: dict[str, list[str]] = {}
    name, block = "", None
    for line in section(example.heading).splitlines():
        if line.startswith("```"):
            if block is not None:
                blocks[name].append("\n".join(block) + "\n")
            block = None if block is not None else []
        elif block is not None:
            block.append(line)
        elif line.startswith("`") and line.endswith(":"):
            name = line.split("`")[1]
            blocks[name] = []
    return blocks


def registered(registry: str, blocks: list[str]) -> str:
    """A registry with the example's import and line."""
    imported, line = blocks
    text = registry.replace("@dataclass", f"{imported}\n\n@dataclass", 1)
    return re.sub(r"(: dict\[str, \w+\] = {\n)", lambda match: match[0] + line, text, count=1)


def write(example: Example, root: Path) -> Path:
    """Write a copy of the package with the example; return the example's test."""
    shutil.copytree(ROOT / "training_core", root / "training_core")
    folder = root / "training_core" / example.package / example.folder
    (folder / "presets").mkdir(parents=True)
    (folder / "__init__.py").touch()
    tests = root / "tests" / f"test_{example.folder}.py"
    tests.parent.mkdir()
    for name, blocks in files_of(example).items():
        if name.endswith("registry.py"):
            registry = root / name
            registry.write_text(registered(registry.read_text(), blocks))
        else:
            target = tests if name.startswith("test_") else folder / name
            target.write_text(blocks[0])
    return tests


def python(root: Path, *words: str) -> str:
    """The output of Python that imports the copy."""
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    environment["PYTHONPATH"] = os.pathsep.join([str(root), str(ROOT)])
    done = subprocess.run(
        [sys.executable, *words], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "example", [ENVIRONMENT, NETWORK_ENVIRONMENT, NETWORK], ids=lambda example: example.folder
)
def test_an_example_of_contributing_trains(example: Example, tmp_path: Path) -> None:
    """Its test passes, and a short run ends, in one process that imports torch once."""
    tests = write(example, tmp_path)
    testing = ["-q", "-c", os.devnull, "-p", "no:django", str(tests)]
    training = ["--preset", example.preset, "--local", *example.overrides, "--home", str(tmp_path / "home")]
    code = f"import sys, pytest; from workers.run import main; sys.exit(pytest.main({testing}) or main({training}))"
    output = python(tmp_path, "-c", code)
    assert " passed" in output
    iterations = next(word for word in example.overrides if word.startswith("run.iterations"))
    assert f"finished after {iterations.partition('=')[2]} iterations" in output


@pytest.mark.parametrize(
    "example", [ENVIRONMENT, NETWORK_ENVIRONMENT, NETWORK], ids=lambda example: example.folder
)
def test_an_example_follows_the_style_of_the_project(example: Example, tmp_path: Path) -> None:
    write(example, tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    folders = [f"training_core/{example.package}/{example.folder}", "tests"]
    python(tmp_path, "-m", "ruff", "check", *folders)
    python(tmp_path, "-m", "ruff", "format", "--check", *folders)
