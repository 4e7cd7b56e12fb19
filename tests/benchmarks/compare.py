"""Two commits, measured in turns: `make bench-compare BASE=COMMIT [ONLY="NAME ..."]`.

    python -m tests.benchmarks.compare BASE [NAME ...] [--rounds 5] [--repeats 3] [--small]

Compares the working tree with the commit BASE, which is checked out into a temporary worktree. Both are measured by the
benchmark programs of the working tree, in processes of their own: base, tree, base, tree. Where such a program cannot run in
the base, the base is measured by its own program, which the table states: compare only figures that both measure in the same
way. A round contributes the median of its repeats. Prints for each figure the ratio tree / base with its 95 % interval
(Student's t over the logarithms of the rounds' ratios).
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.benchmarks.children import run_measuring, terminations_as_interrupts
from tests.benchmarks.intervals import RatioInterval, ratio_interval
from tests.benchmarks.registry import SHORT_SET
from tests.benchmarks.results import MOST_LOAD, ROOT, load, number

PROGRAMS = ("tests/benchmarks/*.py", "tests/conftest.py")
"""Files of the working tree that measure both commits."""
INTERRUPTED = 130
"""Exit status after Ctrl-C."""


@dataclass(frozen=True)
class Settings:
    """How often and how both commits are measured."""

    rounds: int = 5
    repeats: int = 3
    small: bool = False


@dataclass(frozen=True)
class Failure:
    """The reason why a benchmark could not be measured."""

    where: str
    reason: str


Rounds = dict[str, list[float]]
"""By figure, the median of each round."""


def main(words: Sequence[str] | None = None) -> int:
    """Compare; the exit status is 1 if a benchmark fails in the working tree."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("base", help="a commit, tag or branch")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: all of {', '.join(SHORT_SET)}")
    parser.add_argument("--rounds", type=int, default=5, help="how often each commit is measured")
    parser.add_argument("--repeats", type=int, default=3, help="turns in a round")
    parser.add_argument("--small", action="store_true", help="tiny settings, which check the programs")
    arguments = parser.parse_args(words)
    unknown = [name for name in arguments.names if name not in SHORT_SET]
    if unknown:
        parser.error(f"no such benchmark: {', '.join(unknown)}; benchmarks are {', '.join(SHORT_SET)}")
    settings = Settings(arguments.rounds, arguments.repeats, arguments.small)
    try:
        return compare(ROOT, arguments.base, arguments.names or list(SHORT_SET), settings)
    except KeyboardInterrupt:
        print("interrupted; the worktree is removed")
        return INTERRUPTED


def compare(root: Path, base: str, names: Sequence[str], settings: Settings) -> int:
    """Measure both commits and print a table for each benchmark. Raises SystemExit if `base` is not a commit."""
    commit = commit_of(root, base)
    if load() > MOST_LOAD:
        print(f"WARNING: the load average is {load()}: intervals will be wide.")
    print(f"base: {commit[:10]} ({base}); tree: the working tree in {root}", flush=True)
    status = 0
    with terminations_as_interrupts(), checked_out(root, commit) as worktree:
        for name in names:
            both = measure_both({"base": worktree, "tree": root}, name, settings)
            if isinstance(both, Failure) and both.where == "base":
                print(f"\n{name}: the base's own program, because: {both.reason}", flush=True)
                _git(worktree, "checkout", "--quiet", "--", ".")
                both = measure_both({"base": worktree, "tree": root}, name, settings)
                copy_programs(root, worktree)
            if isinstance(both, Failure):
                print(f"\n{name}: cannot run in the {both.where}: {both.reason}", flush=True)
                status |= both.where == "tree"
            else:
                print("\n" + "\n".join(table(name, *both)), flush=True)
    return int(status)


def commit_of(root: Path, base: str) -> str:
    """Return the full name of a commit. Raises SystemExit if there is none."""
    answer = subprocess.run(
        ["git", "-C", str(root), "rev-parse", "--verify", "--quiet", f"{base}^{{commit}}"],
        capture_output=True,
        text=True,
    )
    if answer.returncode:
        raise SystemExit(f"no commit {base!r} in {root}: give a commit, tag or branch (git log --oneline)")
    return answer.stdout.strip()


@contextmanager
def checked_out(root: Path, commit: str) -> Iterator[Path]:
    """A temporary worktree of a commit with the benchmark programs of `root`; it is removed in any case."""
    folder = Path(tempfile.mkdtemp(prefix="troupe-base-"))
    worktree = folder / "tree"
    try:
        _git(root, "worktree", "add", "--quiet", "--detach", str(worktree), commit)
        copy_programs(root, worktree)
        yield worktree
    finally:
        # forced twice: an interrupted checkout is locked
        remove = ["git", "-C", str(root), "worktree", "remove", "--force", "--force", str(worktree)]
        subprocess.run(remove, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)
        _git(root, "worktree", "prune")


def copy_programs(root: Path, worktree: Path) -> None:
    """Give the worktree the benchmark programs of `root`."""
    for program in (path for pattern in PROGRAMS for path in root.glob(pattern)):
        copy = worktree / program.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(program, copy)


def measure_both(
    trees: dict[str, Path], name: str, settings: Settings
) -> tuple[dict[str, Rounds], dict[str, str]] | Failure:
    """Measure in turns. Returns the rounds of both trees and the units, or the first failure."""
    rounds: dict[str, Rounds] = {where: {} for where in trees}
    units: dict[str, str] = {}
    for _ in range(settings.rounds):
        for where, tree in trees.items():
            result = measure(tree, name, settings)
            if isinstance(result, str):
                return Failure(where, result)
            for figure, row in result["figures"].items():
                rounds[where].setdefault(figure, []).append(median(row["values"]))
                units[figure] = row["unit"]
    return rounds, units


def measure(tree: Path, name: str, settings: Settings) -> dict | str:
    """One round in one tree: the content of the result file, or the last line of its errors."""
    with tempfile.TemporaryDirectory(prefix="troupe-bench-") as folder:
        file, errors = Path(folder) / "result.json", Path(folder) / "errors"
        words = [name, "--own", "--repeats", str(settings.repeats), "--json", str(file)]
        with errors.open("w") as output:
            status = run_measuring(tree, words + ["--small"] * settings.small, output)
        if status:
            lines = errors.read_text().strip().splitlines()
            return lines[-1] if lines else f"exit status {status}"
        return json.loads(file.read_text())


def table(name: str, rounds: dict[str, Rounds], units: dict[str, str]) -> Iterator[str]:
    """The lines of one benchmark: medians, ratio and interval of each figure that both trees have."""
    base, tree = rounds["base"], rounds["tree"]
    yield name
    for figure, unit in units.items():
        if figure not in base or figure not in tree:
            yield f"  {figure}: only in the {'tree' if figure in tree else 'base'}"
            continue
        measured = ratio_interval(tree[figure], base[figure])
        yield (
            f"  {figure}: {number(median(base[figure]))} to {number(median(tree[figure]))} {unit}, "
            f"ratio {interval_text(measured)}{verdict(measured, unit)}"
        )


def interval_text(measured: RatioInterval) -> str:
    """A ratio with its interval."""
    if measured.low is None or measured.high is None:
        return f"{measured.ratio:.3f} (one round: no interval)"
    return f"{measured.ratio:.3f} ({measured.low:.3f} to {measured.high:.3f})"


def verdict(measured: RatioInterval, unit: str) -> str:
    """Whether the tree is faster or slower, if the interval excludes 1. Rates (units with "/s") are better if they are higher."""
    if not measured.differs:
        return ""
    return ", faster" if (measured.ratio > 1) == ("/s" in unit) else ", slower"


def _git(root: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(root), *words], check=True)


if __name__ == "__main__":
    sys.exit(main())
