"""All checks and tests, in two lanes; a failure does not hide the others.

`python -m tests.run_all [stage ...]`; the exit status is 0 if every stage passed. Each line of output starts with its stage's name.
A summary of all tests comes last.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from xml.etree import ElementTree

QUIET = ["pytest", "-q", "--durations=15"]
VERBOSE = ["pytest", "-v", "--durations=15"]
"""Prints a line for each test, where one may take minutes."""
STAGES: dict[str, list[str]] = {
    "lint": ["ruff", "check", "."],
    "format": ["ruff", "format", "--check", "."],
    "types": ["mypy"],
    "browser": [*VERBOSE, "-m", "browser and not extended and not soak", "tests/end_to_end"],
    "slow": [
        *VERBOSE,
        "-m",
        "slow and not extended and not ray and not stack and not browser and not soak",
        "--ignore=tests/benchmarks",
    ],
    "stack": [*VERBOSE, "-m", "stack and not extended and not browser and not soak", "tests/end_to_end"],
    "ray": [*VERBOSE, "-m", "ray and not extended and not stack and not browser and not soak", "tests/workers"],
    "core": [*QUIET, "tests/training_core"],
    "web": [*QUIET, "tests/webapp"],
    "others": [
        *QUIET,
        *(f"--ignore=tests/{folder}" for folder in ("training_core", "webapp", "benchmarks")),
        "tests",
    ],
}
"""Commands by stage, in the order in which they start: checks that take seconds, then the longest first, so that lanes end together.

A stage that names a folder does not import the other tests, which takes 20 s of CPU time.
"""
LANES = 2
"""For two cores."""
PIPE_WAIT = 10.0
"""Seconds; a process that a test has left running may hold the pipe open."""
REASON = 400
"""Maximum number of characters of a failure's message in the summary."""
NOTHING_SELECTED = 5
"""pytest's exit status."""


@dataclass
class Outcome:
    """How a stage ended."""

    good: bool
    report: Path | None = None
    """pytest's JUnit file."""


def say(stage: str, line: str) -> None:
    """Print a line in one write, because several threads print."""
    sys.stdout.write(f"{stage:>7} | {line}\n")
    sys.stdout.flush()


def forward(stage: str, child: "subprocess.Popen[str]") -> None:
    """Print a stage's output as it comes."""
    assert child.stdout
    with child.stdout as output:
        for line in output:
            say(stage, line.rstrip("\n"))


def variables() -> dict[str, str]:
    """Return a stage's environment. Python stores compiled modules, or each process of each test would compile them again."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {
        "OMP_NUM_THREADS": "1"
    }


def run_stage(name: str, folder: Path) -> Outcome:
    """Run one stage; pytest's report is stored in `folder`."""
    tool, *words = STAGES[name]
    report = folder / f"{name}.xml"
    if tool == "pytest":
        words += [f"--junitxml={report}", "-o", f"cache_dir={folder / name}"]
    say(name, f"=== {name}: {' '.join([tool, *words])}")
    start = time.monotonic()
    child = subprocess.Popen(
        [Path(sys.executable).with_name(tool), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=variables(),
    )
    reader = Thread(target=forward, args=(name, child), daemon=True)
    reader.start()
    status = child.wait()
    reader.join(PIPE_WAIT)
    good = status == 0 or (tool == "pytest" and status == NOTHING_SELECTED)
    say(name, f"=== {name}: {'passed' if good else f'FAILED ({status})'} in {time.monotonic() - start:.0f} s")
    return Outcome(good, report)


def run_lane(waiting: Iterator[str], folder: Path, outcomes: dict[str, Outcome]) -> None:
    """Run waiting stages one after the other."""
    for name in waiting:
        outcomes[name] = run_stage(name, folder)


def run_lanes(names: list[str], folder: Path) -> dict[str, Outcome]:
    """Run all stages, each in the first free lane."""
    outcomes: dict[str, Outcome] = {}
    waiting = iter(names)
    threads = [Thread(target=run_lane, args=(waiting, folder, outcomes), daemon=True) for _ in range(LANES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {name: outcomes.get(name, Outcome(good=False)) for name in names}


def read_report(path: Path) -> tuple[Counter[str], list[str]]:
    """Numbers of tests by result in a stage, and names and reasons of those that did not pass."""
    total: Counter[str] = Counter()
    bad: list[str] = []
    for suite in ElementTree.parse(path).getroot().iter("testsuite"):
        keys = {"failed": "failures", "errors": "errors", "skipped": "skipped"}
        results = {result: int(suite.get(key, 0)) for result, key in keys.items()}
        total.update(results, passed=int(suite.get("tests", 0)) - sum(results.values()))
        for case in suite.iter("testcase"):
            for result in (*case.findall("failure"), *case.findall("error")):
                reason = " ".join(result.get("message", "").split())[:REASON]
                bad.append(f"{case.get('classname', '')}::{case.get('name', '')}: {reason}")
    return total, bad


def main() -> int:
    """Run the stages that the command line names, or all of them; returns the exit status."""
    names = sys.argv[1:] or list(STAGES)
    unknown = [name for name in names if name not in STAGES]
    if unknown:
        print(f"no such stage: {', '.join(unknown)}; stages are {', '.join(STAGES)}")
        return 2
    start = time.monotonic()
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="troupe-reports-") as folder:
        outcomes = run_lanes(names, Path(folder))
        for outcome in outcomes.values():
            if outcome.report and outcome.report.exists():
                results, bad = read_report(outcome.report)
                total += results
                print("".join(f"FAILED: {test}\n" for test in bad), end="")
    words = [
        f"{total[result]} {result}" for result in ("failed", "passed", "skipped", "errors") if total[result]
    ]
    stages = ", ".join(f"{name} {'ok' if outcome.good else 'FAILED'}" for name, outcome in outcomes.items())
    print(f"\nstages: {stages}")
    print(
        f"{'=' * 10} {', '.join(words) or 'no tests'} in {time.monotonic() - start:.2f}s {'=' * 10}",
        flush=True,
    )
    return 0 if all(outcome.good for outcome in outcomes.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
