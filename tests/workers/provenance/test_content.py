"""Hashes of packages and data files that a config names; the state of a git repository without secrets."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from training_core.config.files import load_config
from workers.provenance import content
from workers.provenance.collecting import attempt_provenance
from workers.provenance.repository import (
    MOST_DIFF,
    packed_diff,
    repositories,
    repository_state,
    unpacked_diff,
)


def git(folder: Path, *words: str) -> str:
    names = ["-c", "user.name=ada", "-c", "user.email=ada@example.org"]
    return subprocess.run(
        ["git", "-C", str(folder), *names, *words], check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "lab"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    (root / "world.py").write_text("speed = 1\n")
    (root / "my secrets.txt").write_text("nothing\n")
    (root / "figure.bin").write_bytes(b"\0\1\2")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "Start")
    return root


def test_a_clean_repository_has_a_commit_and_no_diff(repository: Path) -> None:
    state = repository_state(repository)
    assert state["commit"] == git(repository, "rev-parse", "HEAD").strip()
    assert (state["branch"], state["name"], state["changed"], state["diff"]) == ("main", "lab", [], "")


def test_uncommitted_changes_are_a_diff_without_secrets(repository: Path) -> None:
    (repository / "world.py").write_text("speed = 2\napi_key = 'abcdef123456'\n")
    (repository / "my secrets.txt").write_text("hunter2\n")
    (repository / "figure.bin").write_bytes(b"\0\3\4")
    (repository / "new.py").write_text("")
    git(repository, "remote", "add", "origin", "https://ada:password1@example.org/lab.git")
    state = repository_state(repository / "..").get("note"), repository_state(repository)
    assert state[0] == "not a repository"
    diff = unpacked_diff(state[1]["diff"])
    assert "-speed = 1" in diff and "+speed = 2" in diff and "+api_key = '[redacted]'" in diff
    assert "hunter2" not in diff and sorted(state[1]["left_out"]) == ["figure.bin", "my secrets.txt"]
    assert sorted(state[1]["changed"]) == ["figure.bin", "my secrets.txt", "world.py"]
    assert state[1]["untracked"] == ["new.py"]
    assert state[1]["remote"] == "https://ada:[redacted]@example.org/lab.git"


def test_a_repository_is_reported_once(repository: Path) -> None:
    (repository / "below").mkdir()
    states = repositories([("lab", repository / "below"), ("", repository)])
    assert [state["folder"] for state in states] == [str(repository)]


def test_a_repository_without_commits(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    assert (repository_state(tmp_path)["commit"], repository_state(tmp_path)["diff"]) == ("", "")


def test_a_long_diff_is_cut_at_the_end_of_a_line() -> None:
    text = "".join(f"+line {number} {number * 7919 % 100003}\n" for number in range(60_000))
    packed, size, is_cut = packed_diff(text)
    part = unpacked_diff(packed)
    assert is_cut and size == len(text) and len(part) <= MOST_DIFF
    assert part and text.startswith(part) and part.endswith("\n")


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
