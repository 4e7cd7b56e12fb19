"""Hashes of packages and data files that a config names."""

import hashlib
import os
import sys
from pathlib import Path

import pytest

from training_core.config.files import load_config
from workers.provenance import content
from workers.provenance.collecting import attempt_provenance

OWN = {"environment.type": "custom", "environment.path": "ourlab.worlds:Boats"}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "ourlab"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise RuntimeError('provenance does not import')\n")
    (folder / "worlds.py").write_text("class Boats: ...\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return folder


def test_the_hash_of_a_package_follows_its_files(package: Path, tmp_path: Path) -> None:
    config = load_config("plan_path_duo", OWN)
    (before,) = content.code_of(config)
    assert (before["field"], before["path"], before["version"]) == (
        "environment.path",
        OWN["environment.path"],
        "",
    )
    assert (before["files"], len(before["sha256"])) == (2, 64)
    (package / "notes.log").write_text("not code")
    assert content.code_of(config) == [before]
    (package / "worlds.py").write_text("class Boats: boats = 3\n")
    assert content.code_of(config)[0]["sha256"] != before["sha256"]


def test_a_missing_package_is_a_note(tmp_path: Path) -> None:
    (item,) = content.code_of(load_config("plan_path_duo", OWN | {"environment.path": "nopackage:Boats"}))
    assert "not found" in item["note"]


def test_data_files_are_hashed_and_large_ones_sampled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_bytes(b"abc" * 1000)
    assert content.file_hash(file) == (hashlib.sha256(b"abc" * 1000).hexdigest(), False)
    monkeypatch.setattr(content, "WHOLE", 100)
    monkeypatch.setattr(content, "PIECE", 10)
    sampled, is_sampled = content.file_hash(file)
    file.write_bytes(b"abc" * 999 + b"abd")
    assert is_sampled and content.file_hash(file)[0] != sampled


def test_the_facts_of_an_attempt_hold_no_environment_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_VARIABLE", "value-of-a-variable")
    facts = attempt_provenance(load_config("plan_path_duo"), tmp_path)
    assert "value-of-a-variable" not in str(facts)
    assert facts["machine"]["cores"] == os.cpu_count() and facts["machine"]["memory"] > 2**28
    assert facts["installed"]["torch"] and facts["repositories"]
