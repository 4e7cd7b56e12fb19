"""The short set and the comparison of two commits, on a temporary repository with toy benchmarks."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.benchmarks import compare as compare_module
from tests.benchmarks.compare import INTERRUPTED, Settings, compare, verdict
from tests.benchmarks.intervals import ratio_interval
from tests.benchmarks.results import ROOT

PROGRAMS = ("folders", "results", "measure", "intervals", "children", "compare", "bench")
NAMES = {"toy": "benchmark", "newer": "newer", "added": "newer", "slow": "slow", "lonely": "lonely"}
REGISTRY = f"SHORT_SET = { {name: f'tests.benchmarks.toy:{function}' for name, function in NAMES.items()} }\n"
TOY = """
import time
from contextlib import nullcontext
from itertools import cycle
from dataclasses import replace
from tests.benchmarks.results import Benchmark


def benchmark(small=False, seconds=0.0):
    from training_core.speed import VALUES

    values = cycle(VALUES)

    def turn():
        time.sleep(seconds)
        return {"cost": next(values)}

    return Benchmark("a toy", {"cost": "ms"}, lambda: nullcontext({"ours": turn}))


def newer(small=False):
    import training_core.newer

    return benchmark()


def slow(small=False):
    return benchmark(seconds=60.0)


def lonely(small=False):
    return replace(benchmark(), missing="the reference is not installed; run make reference")
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits, of which the second halves the cost and adds a module and benchmarks."""
    root = tmp_path / "toy"
    (root / "tests" / "benchmarks").mkdir(parents=True)
    (root / "training_core").mkdir()
    (root / "training_core" / "__init__.py").touch()
    (root / "training_core" / "speed.py").write_text("VALUES = [8.0, 10.0, 30.0]\n")
    (root / ".gitignore").write_text("__pycache__/\nvar\n")
    for name in PROGRAMS:
        (root / "tests/benchmarks" / f"{name}.py").write_bytes(
            (ROOT / "tests/benchmarks" / f"{name}.py").read_bytes()
        )
    (root / "tests/benchmarks/registry.py").write_text(
        'SHORT_SET = {"newer": "tests.benchmarks.toy:newer"}\n'
    )
    (root / "tests/benchmarks/toy.py").write_text(TOY.replace("import training_core.newer", ""))
    git(root, "init", "-q", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "-qm", "one")
    (root / "tests/benchmarks/registry.py").write_text(REGISTRY)
    (root / "tests/benchmarks/toy.py").write_text(TOY)
    (root / "training_core" / "speed.py").write_text("VALUES = [4.0, 5.0, 15.0]\n")
    (root / "training_core" / "newer.py").touch()
    git(root, "add", ".")
    git(root, "commit", "-qm", "two")
    return root


def git(root: Path, *words: str) -> str:
    own = ["-c", "user.name=a", "-c", "user.email=a@b"]
    answer = subprocess.run(
        ["git", "-C", str(root), *own, *words], check=True, capture_output=True, text=True
    )
    return answer.stdout


def worktrees(root: Path) -> list[str]:
    return [
        line
        for line in git(root, "worktree", "list", "--porcelain").splitlines()
        if line.startswith("worktree ")
    ]


def until(happened: Iterator[bool]) -> None:
    deadline = time.monotonic() + 60
    while not next(happened):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_benchmark_without_its_reference_keeps_its_older_file(repository: Path) -> None:
    results = repository / "var" / "benchmarks" / "results"
    results.mkdir(parents=True)
    (results / "lonely.json").write_text("older\n")
    command = [sys.executable, "-m", "tests.benchmarks.bench", "lonely", "toy"]
    answer = subprocess.run(
        command, cwd=repository, env={"PYTHONPATH": str(repository)}, capture_output=True, text=True
    )
    assert "lonely: skipped: the reference is not installed; run make reference" in answer.stdout
    assert "lonely skipped, toy measured" in answer.stdout and answer.returncode == 0, answer.stderr
    assert (results / "lonely.json").read_text() == "older\n"
    assert json.loads((results / "toy.json").read_text())["figures"]["cost"]["median"] == 5.0
    assert git(repository, "status", "--porcelain") == ""


def test_a_busy_machine_is_reported(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compare_module, "MOST_LOAD", -1.0)
    compare(repository, "HEAD", [], Settings())
    assert "WARNING: the load average is" in capsys.readouterr().out


def test_two_commits_are_measured_with_their_own_code(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Medians 10 and 5 in each round, so that the interval is a point; the tree's program of `newer` cannot run in the base."""
    status = compare(repository, "HEAD~1", ["newer", "added", "toy"], Settings(rounds=2, repeats=3))
    output = capsys.readouterr().out
    assert output.count("cost: 10 to 5.00 ms, ratio 0.500 (0.500 to 0.500), faster") == 2
    assert "newer: the base's own program, because: ModuleNotFoundError" in output
    assert "added: cannot run in the base: " in output
    assert status == 0
    assert len(worktrees(repository)) == 1 and git(repository, "status", "--porcelain") == ""


def test_a_failure_in_the_tree_is_named(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "training_core" / "speed.py").write_text("raise ValueError('broken')\n")
    assert compare(repository, "HEAD", ["toy"], Settings(rounds=1, repeats=1)) == 1
    assert "toy: cannot run in the tree: ValueError: broken" in capsys.readouterr().out
    assert len(worktrees(repository)) == 1


def test_an_unknown_commit_is_refused(repository: Path) -> None:
    with pytest.raises(SystemExit, match="no commit 'nothing'"):
        compare(repository, "nothing", ["toy"], Settings())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_removes_the_worktree(repository: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "tests.benchmarks.compare", "HEAD~1", "slow"]
    with subprocess.Popen(
        command, cwd=repository, env={"PYTHONPATH": str(repository)}, stderr=subprocess.PIPE
    ) as child:
        until(len(worktrees(repository)) == 2 or child.poll() is not None for _ in iter(int, 1))
        assert child.poll() is None, child.stderr and child.stderr.read()
        child.send_signal(number)
        assert child.wait(60) == INTERRUPTED
    assert len(worktrees(repository)) == 1


def test_the_verdict_respects_the_direction_of_the_unit() -> None:
    more = ratio_interval([2.0, 2.0], [1.0, 1.0])
    assert verdict(more, "values/s") == ", faster" and verdict(more, "CPU ms") == ", slower"
    assert verdict(ratio_interval([2.0, 1.0], [1.0, 2.0]), "CPU ms") == ""
