"""The examples of CONTRIBUTING.md as files: a copy of the package with one of them."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.architecture.source import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text()


@dataclass(frozen=True)
class Example:
    """An example of CONTRIBUTING.md, and the short run that tests it."""

    heading: str
    folder: str
    """Below training_core."""
    preset: str
    overrides: tuple[str, ...]


def files_of(example: Example) -> dict[str, list[str]]:
    """The fenced blocks below each line that begins with a file's name and ends with a colon."""
    text = TEXT.partition(f"### Example: {example.heading}\n")[2].partition("\n##")[0]
    pattern = r"^`([^`\n]+)`[^\n]*:\n((?:\n```\w+\n.*?\n```\n)+)"
    return {
        name: re.findall(r"^```\w+\n(.*?\n)```$", blocks, re.MULTILINE | re.DOTALL)
        for name, blocks in re.findall(pattern, text, re.MULTILINE | re.DOTALL)
    }


def registered(registry: str, imported: str, line: str) -> str:
    """A registry with the example's import and line."""
    text = registry.replace("@dataclass", f"{imported}\n\n@dataclass", 1)
    return re.sub(r"(: dict\[str, \w+\] = {\n)", lambda match: match[0] + line, text, count=1)


def write(example: Example, root: Path) -> Path:
    """Write a copy of the package with the example; return the example's test."""
    shutil.copytree(
        ROOT / "training_core", root / "training_core", ignore=shutil.ignore_patterns("__pycache__")
    )
    folder = root / "training_core" / example.folder
    folder.mkdir()
    (folder / "__init__.py").touch()
    (root / "tests").mkdir()
    for name, blocks in files_of(example).items():
        if name.endswith("registry.py"):
            registry = root / name
            registry.write_text(registered(registry.read_text(), *blocks))
        else:
            file = (root / "tests" if name.startswith("test_") else folder) / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(blocks[0])
    (test,) = (root / "tests").iterdir()
    return test


def python(root: Path, *words: str) -> str:
    """The output of Python that imports the copy."""
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    environment["PYTHONPATH"] = os.pathsep.join([str(root), str(ROOT)])
    done = subprocess.run(
        [sys.executable, *words], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
