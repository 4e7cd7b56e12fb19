"""All checks in order, each told as it starts and ends; the first failure does not hide the others.

`python -m tests.run_all [stage ...]`; exit status 0 when every stage passed. A summary of all tests comes last.
"""

import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

STAGES: dict[str, list[str]] = {
    "lint": ["ruff", "check", "."],
    "format": ["ruff", "format", "--check", "."],
    "types": ["mypy"],
    "unit": ["pytest", "-q"],
    "ray": ["pytest", "-q", "-m", "ray and not stack and not browser"],
    "browser": ["pytest", "-q", "-m", "browser", "--ignore=tests/benchmarks"],
    "stack": ["pytest", "-q", "-m", "stack and not browser"],
    "slow": ["pytest", "-q", "-m", "slow and not ray and not stack and not browser"],
}
NOTHING_SELECTED = 5
"""pytest's exit status."""


def run_stage(name: str, reports: Path) -> bool:
    """Run one stage; its output goes straight through."""
    tool, *words = STAGES[name]
    print(f"\n=== {name}: {' '.join([tool, *words])}", flush=True)
    if tool == "pytest":
        words.append(f"--junitxml={reports / name}.xml")
    start = time.monotonic()
    status = subprocess.run([Path(sys.executable).with_name(tool), *words], check=False).returncode
    good = status == 0 or (tool == "pytest" and status == NOTHING_SELECTED)
    how = "passed" if good else f"FAILED ({status})"
    print(f"=== {name}: {how} in {time.monotonic() - start:.0f} s", flush=True)
    return good


def counts(reports: Path) -> Counter[str]:
    """Tests passed, failed, skipped and in error over all reports."""
    total: Counter[str] = Counter()
    for path in reports.glob("*.xml"):
        for suite in ElementTree.parse(path).getroot().iter("testsuite"):
            bad = {
                "failed": int(suite.get("failures", 0)),
                "errors": int(suite.get("errors", 0)),
                "skipped": int(suite.get("skipped", 0)),
            }
            total.update(bad, passed=int(suite.get("tests", 0)) - sum(bad.values()))
    return total


def main() -> int:
    """Exit status."""
    names = sys.argv[1:] or list(STAGES)
    unknown = [name for name in names if name not in STAGES]
    if unknown:
        print(f"no such stage: {', '.join(unknown)}; stages are {', '.join(STAGES)}")
        return 2
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="troupe-reports-") as folder:
        results = {name: run_stage(name, Path(folder)) for name in names}
        found = counts(Path(folder))
    words = [f"{found[kind]} {kind}" for kind in ("failed", "passed", "skipped", "errors") if found[kind]]
    stages = ", ".join(f"{name} {'ok' if good else 'FAILED'}" for name, good in results.items())
    print(f"\nstages: {stages}")
    print(
        f"{'=' * 10} {', '.join(words) or 'no tests'} in {time.monotonic() - start:.2f}s {'=' * 10}",
        flush=True,
    )
    return 0 if all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
