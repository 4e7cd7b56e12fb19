"""All checks, two lanes side by side; a failure does not hide the others.

`python -m tests.run_all [stage ...]`; exit status 0 when every stage passed. Each line of output has its stage's name in front.
A test that fails is run once more at the end, when nothing else runs; a summary of all tests comes last.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from xml.etree import ElementTree

QUIET = ["pytest", "-q", "--durations=15"]
TOLD = ["pytest", "-v", "--durations=15"]
"""A line for each test, where one may take minutes."""
STAGES: dict[str, list[str]] = {
    "lint": ["ruff", "check", "."],
    "format": ["ruff", "format", "--check", "."],
    "types": ["mypy"],
    "stack": [*TOLD, "-m", "stack and not browser", "tests/end_to_end"],
    "browser": [*TOLD, "-m", "browser", "tests/end_to_end"],
    "ray": [*TOLD, "-m", "ray and not stack and not browser", "tests/workers"],
    "unit": QUIET,
    "slow": [*TOLD, "-m", "slow and not ray and not stack and not browser", "--ignore=tests/benchmarks"],
}
"""Commands by stage, in the order in which they start: first the short stages, which fail most often; the others in an order in
which both lanes end at about the same time (types, browser and unit in one; stack, ray and slow in the other).

A stage that names a folder does not import the other tests, which takes 20 s of CPU time.
"""
LANES = 2
"""For two cores."""
LAST_WORDS = 10.0
"""Seconds; what a test has left running may hold the pipe open for ever."""
FAILURES, NOTHING_SELECTED = 1, 5
"""pytest's exit statuses."""


@dataclass
class Outcome:
    """How a stage ended."""

    good: bool
    failed: set[str] = field(default_factory=set)
    """Tests that failed, or whose fixtures did; empty too when pytest itself did not come through."""
    reports: list[Path] = field(default_factory=list)
    """JUnit files: of the whole stage, and of the second try where there was one."""


def say(stage: str, line: str) -> None:
    """One write for a whole line: two threads do."""
    sys.stdout.write(f"{stage:>7} | {line}\n")
    sys.stdout.flush()


def forward(stage: str, child: "subprocess.Popen[str]") -> None:
    """What a stage says, as it says it."""
    assert child.stdout
    with child.stdout as output:
        for line in output:
            say(stage, line.rstrip("\n"))


def variables() -> dict[str, str]:
    """A stage's environment. Python keeps what it has compiled: else every process of every test compiles our modules again."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {
        "OMP_NUM_THREADS": "1"
    }


def run_stage(name: str, folder: Path, attempt: str = "", *more: str) -> Outcome:
    """Run one stage. pytest's reports and its list of what failed last lie in `folder`."""
    tool, *words = [*STAGES[name], *more]
    report, cache = folder / f"{name}{attempt}.xml", folder / f"{name}-cache"
    if tool == "pytest":
        words += [f"--junitxml={report}", "-o", f"cache_dir={cache}"]
    say(name, f"=== {name}{attempt}: {' '.join([tool, *words])}")
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
    reader.join(LAST_WORDS)
    good = status == 0 or (tool == "pytest" and status == NOTHING_SELECTED and not attempt)
    how = "passed" if good else f"FAILED ({status})"
    say(name, f"=== {name}{attempt}: {how} in {time.monotonic() - start:.0f} s")
    failures = cache / "v" / "cache" / "lastfailed"
    known = status == FAILURES and failures.exists()
    return Outcome(good, set(json.loads(failures.read_text())) if known else set(), [report])


def try_again(name: str, first: Outcome, folder: Path) -> tuple[Outcome, set[str]]:
    """Run the tests that failed once more; the stage's outcome then, and those that passed this time."""
    second = run_stage(name, folder, " (second try)", "--last-failed", "--last-failed-no-failures=none")
    passed = first.failed - second.failed if second.good or second.failed else set()
    return Outcome(
        second.good, second.failed or first.failed - passed, first.reports + second.reports
    ), passed


def run_lane(waiting: Iterator[str], folder: Path, outcomes: dict[str, Outcome]) -> None:
    """One stage after the other, as long as any waits."""
    for name in waiting:
        outcomes[name] = run_stage(name, folder)


def run_lanes(names: list[str], folder: Path) -> dict[str, Outcome]:
    """All stages, each taken by the lane that is free first; the lanes' threads end with this process."""
    outcomes: dict[str, Outcome] = {}
    waiting = iter(names)
    threads = [Thread(target=run_lane, args=(waiting, folder, outcomes), daemon=True) for _ in range(LANES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {name: outcomes.get(name, Outcome(good=False)) for name in names}


def counts(reports: list[Path]) -> Counter[str]:
    """Tests passed, failed, skipped and in error in a stage; the second try's word goes for those that had one."""
    total: Counter[str] = Counter()
    for path in reports:
        if path.exists():
            total["failed"] = total["errors"] = 0
            for suite in ElementTree.parse(path).getroot().iter("testsuite"):
                kinds = {"failed": "failures", "errors": "errors", "skipped": "skipped"}
                told = {kind: int(suite.get(name, 0)) for kind, name in kinds.items()}
                total.update(told, passed=int(suite.get("tests", 0)) - sum(told.values()))
    return total


def main() -> int:
    """Exit status."""
    names = sys.argv[1:] or list(STAGES)
    unknown = [name for name in names if name not in STAGES]
    if unknown:
        print(f"no such stage: {', '.join(unknown)}; stages are {', '.join(STAGES)}")
        return 2
    start = time.monotonic()
    at_second: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="troupe-reports-") as folder:
        outcomes = run_lanes(names, Path(folder))
        for name, outcome in outcomes.items():
            if outcome.failed:
                outcomes[name], passed = try_again(name, outcome, Path(folder))
                at_second |= passed
        found = sum((counts(outcome.reports) for outcome in outcomes.values()), Counter[str]())
    for test in sorted(test for outcome in outcomes.values() for test in outcome.failed):
        print(f"FAILED twice: {test}")
    for test in sorted(at_second):
        print(f"passed only at the second try: {test} -- mend it, it will fail again (CONTRIBUTING.md)")
    words = [f"{found[kind]} {kind}" for kind in ("failed", "passed", "skipped", "errors") if found[kind]]
    stages = ", ".join(f"{name} {'ok' if outcome.good else 'FAILED'}" for name, outcome in outcomes.items())
    print(f"\nstages: {stages}")
    print(
        f"{'=' * 10} {', '.join(words) or 'no tests'} in {time.monotonic() - start:.2f}s {'=' * 10}",
        flush=True,
    )
    return 0 if all(outcome.good for outcome in outcomes.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
