"""Which versions of Python are supported is said once per place, and an unsupported one is refused with a remedy."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from tests.pythons import find_interpreters
from troupe_client import pythons
from troupe_client.pythons import TESTED


def test_every_place_names_the_same_versions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [line.rpartition(" ")[2] for line in project["classifiers"]] == list(TESTED)
    assert project["requires-python"] == ">=" + ".".join(map(str, pythons.OLDEST))
    (chosen,) = re.findall(r"foreach version,([\d. ]+),", (ROOT / "Makefile").read_text())
    assert chosen.split() == list(reversed(TESTED))


def test_an_old_python_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pythons.python_error() == ""
    monkeypatch.setattr(pythons, "OLDEST", (sys.version_info[0], sys.version_info[1] + 1))
    error = pythons.python_error()
    for part in (", ".join(TESTED), sys.version.split()[0], sys.executable, "PYTHON="):
        assert part in error


def test_a_placeholder_on_the_path_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = ".".join(map(str, sys.version_info[:2]))
    for folder, script in (("first", "exit 127"), ("second", f'exec {sys.executable} "$@"')):
        (tmp_path / folder).mkdir()
        program = tmp_path / folder / f"python{version}"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'first'}:{tmp_path / 'second'}")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert find_interpreters([version, "3.99"]) == {version: str(tmp_path / "second" / f"python{version}")}
