"""Lanes and summary of `tests.run_all`, with pytest on tiny projects."""

import os
import re
import signal
import sys
import threading
from pathlib import Path

import pytest

from tests import run_all

SOUND = "def test_sound():\n    pass\n"
BROKEN = "def test_broken():\n    assert False, 'always'\n"
BAD_FIXTURE = """
import pytest

@pytest.fixture
def bad():
    raise AssertionError("always")

def test_needs_it(bad):
    pass
"""
CRASHING = "import os\ndef test_crash():\n    os._exit(1)\n"


def run(
    patch: pytest.MonkeyPatch, folder: Path, capsys: pytest.CaptureFixture[str], **stages: list[str]
) -> tuple[int, list[str]]:
    """Exit status and output lines of a run whose stages' folders hold these test files."""
    commands = {}
    for stage, files in stages.items():
        home = folder / stage
        home.mkdir()
        (home / "pytest.ini").write_text("[pytest]\n")
        for number, text in enumerate(files):
            (home / f"test_{stage}{number}.py").write_text(text)
        commands[stage] = ["pytest", "-q", "-p", "no:django", "-c", str(home / "pytest.ini"), str(home)]
    patch.setattr(run_all, "STAGES", commands)
    patch.setattr(sys, "argv", ["run_all"])
    status = run_all.main()
    return status, capsys.readouterr().out.splitlines()


def test_failures_are_named_and_counted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, lines = run(
        monkeypatch, tmp_path, capsys, first=[SOUND, BROKEN, BAD_FIXTURE], second=[SOUND], third=[SOUND]
    )
    assert status == 1
    named = [line for line in lines if line.startswith("FAILED: ")]
    assert [name.rpartition("::")[2] for name in named] == [
        "test_broken: AssertionError: always assert False",
        'test_needs_it: failed on setup with "AssertionError: always"',
    ]
    assert "stages: first FAILED, second ok, third ok" in lines
    assert lines[-1].startswith("========== 1 failed, 3 passed, 1 errors in ")


def test_a_crash_of_pytest_fails_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, lines = run(monkeypatch, tmp_path, capsys, first=[SOUND, CRASHING], second=["import nowhere"])
    assert status == 1
    assert "stages: first FAILED, second FAILED" in lines


def test_every_line_names_its_stage(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, lines = run(monkeypatch, tmp_path, capsys, first=[SOUND], second=[SOUND], third=[SOUND])
    assert status == 0
    for stage in ("first", "second", "third"):
        assert any(line.startswith(f"{stage:>7} | === {stage}: passed in ") for line in lines)
        assert any(line.startswith(f"{stage:>7} | 1 passed") for line in lines)


def test_a_stage_may_be_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = {"yes": ["ruff", "--version"], "no": ["ruff", "no-such-command"]}
    monkeypatch.setattr(run_all, "STAGES", commands)
    for asked, status in (("yes", 0), ("no", 1), ("maybe", 2)):
        monkeypatch.setattr(sys, "argv", ["run_all", asked])
        assert run_all.main() == status
    assert "stages: yes ok\n" in capsys.readouterr().out


def test_two_stages_run_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    meeting = """
import time
from pathlib import Path

def test_meets_the_other():
    here = Path(__file__).parent
    (here / "there").touch()
    while not all((stage / "there").exists() for stage in here.parent.iterdir()):
        time.sleep(0.05)
"""
    status, lines = run(monkeypatch, tmp_path, capsys, first=[meeting], second=[meeting])
    assert status == 0, lines


def test_every_marked_test_is_in_its_stages_folder() -> None:
    """In another folder no stage would run it."""
    tests = Path(__file__).parent
    for mark in ("stack", "browser", "ray"):
        folder = tests.parent / run_all.STAGES[mark][-1]
        word = re.compile(rf"mark\.{mark}\b")
        files = [path for path in tests.rglob("test_*.py") if tests / "benchmarks" not in path.parents]
        marked = [path for path in files if path != Path(__file__) and word.search(path.read_text())]
        assert marked and all(folder in path.parents for path in marked), mark


def test_a_stage_stores_compiled_modules(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    status, lines = run(monkeypatch, tmp_path, capsys, first=[SOUND])
    assert status == 0, lines
    assert list(tmp_path.rglob("*.pyc"))


def test_a_process_left_running_does_not_block_its_stage(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leaves = f"""
import subprocess, sys
def test_leaves(capfd):
    with capfd.disabled():
        left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    open({str(tmp_path / "pid")!r}, "w").write(str(left.pid))
    left.returncode = 0  # or pytest minds
"""
    monkeypatch.setattr(run_all, "PIPE_WAIT", 0.5)
    before = set(threading.enumerate())
    try:
        status, lines = run(monkeypatch, tmp_path, capsys, first=[leaves])
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
        for thread in set(threading.enumerate()) - before:
            thread.join(60)
    assert status == 0, lines
