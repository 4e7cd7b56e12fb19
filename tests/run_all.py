"""All checks in order, each told as it starts and ends; the first failure does not hide the others.

`python -m tests.run_all [stage ...]`
"""

import os
import subprocess
import sys
import time

STAGES: dict[str, list[str]] = {
    "lint": ["ruff", "check", "."],
    "format": ["ruff", "format", "--check", "."],
    "types": ["mypy"],
    "unit": ["pytest", "-q"],
    "ray": ["pytest", "-q", "-m", "ray and not stack and not browser"],
    "stack": ["pytest", "-q", "-m", "stack and not browser"],
    "browser": ["pytest", "-q", "-m", "browser"],
    "slow": ["pytest", "-q", "-m", "slow and not ray and not stack and not browser"],
}
NO_TESTS = 5
"""pytest's exit status where nothing was selected."""


def run_stage(name: str) -> bool:
    """Run one stage; its output goes straight through."""
    print(f"\n=== {name}: {' '.join(STAGES[name])}", flush=True)
    start = time.monotonic()
    tool, *words = STAGES[name]
    status = subprocess.run(
        [os.path.join(os.path.dirname(sys.executable), tool), *words], check=False
    ).returncode
    good = status == 0 or (tool == "pytest" and status == NO_TESTS)
    print(
        f"=== {name}: {'passed' if good else f'FAILED ({status})'} in {time.monotonic() - start:.0f} s",
        flush=True,
    )
    return good


def main() -> int:
    """Exit status 0 when every stage passed."""
    names = sys.argv[1:] or list(STAGES)
    results = {name: run_stage(name) for name in names}
    failed = [name for name, good in results.items() if not good]
    print(f"\n{len(results) - len(failed)} passed, {len(failed)} failed", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
