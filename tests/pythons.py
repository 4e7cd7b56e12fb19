"""The unit tests, the client's install and a start with the main job on each supported Python that is found.

`python -m tests.pythons [3.12 ...]`; without versions, all but the one that runs this, whose tests the other stages of
`make test-all` run. Each has an environment in var/pythons (6 GB where the package index serves PyTorch with CUDA). The exit
status is 0 if every step passed on every version found; a version that was named must be found.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from troupe_client.pythons import TESTED

ROOT = Path(__file__).resolve().parents[1]
STEPS = {
    "unit tests": ["-q", "-n", "2"],
    "client alone": ["-q", "-m", "extended", "tests/troupe_client/test_install.py"],
    "start and main job": ["-q", "-m", "stack", "tests/end_to_end/test_stack_jobs.py"],
}
"""Arguments of pytest by step."""


def find_interpreters(wanted: list[str]) -> dict[str, str]:
    """Path of an interpreter by version, for those of `wanted` that run: on the path, or among pyenv's versions."""
    found = {}
    for version in wanted:
        runs = (path for path in candidates(version) if version_of(path) == version)
        if path := next(runs, None):
            found[version] = str(path)
    return found


def candidates(version: str) -> Iterator[Path]:
    """Yield existing files that may be this version; a version manager's file may not run."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    folders = map(Path, os.get_exec_path())
    yield from filter(Path.exists, (folder / f"python{version}" for folder in folders))
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"), reverse=True)


def version_of(path: Path) -> str:
    """Return "3.12", or "" for a program that does not run or cannot make virtual environments."""
    code = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    return subprocess.run([path, "-c", code], capture_output=True, text=True).stdout.strip()


def failed_steps(version: str, python: str) -> list[str]:
    """Install into this version's environment and run all steps; returns the names of those that failed."""
    folder = f"var/pythons/{version}"
    print(f"=== Python {version}: {python}", flush=True)
    if subprocess.run(["make", "dev", f"VENV={folder}", f"PYTHON={python}"], cwd=ROOT).returncode:
        return ["install"]
    failed = []
    for name, words in STEPS.items():
        print(f"=== Python {version}: {name}", flush=True)
        pytest = [ROOT / folder / "bin/python", "-m", "pytest", "-p", "no:cacheprovider", *words]
        if subprocess.run(pytest, cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"}).returncode:
            failed.append(name)
    return failed


def main(wanted: list[str]) -> int:
    """Run all steps on the versions `wanted`, or on all other than this one; returns the exit status."""
    running = ".".join(map(str, sys.version_info[:2]))
    versions = wanted or [version for version in TESTED if version != running]
    found = find_interpreters(versions)
    failed = {version: failed_steps(version, python) for version, python in found.items()}
    print("=== summary")
    for version in versions:
        result = f"failed: {', '.join(failed[version])}" if failed.get(version) else "passed"
        print(f"Python {version}: {result if version in found else 'not found'}")
    return int(any(version not in found for version in wanted) or any(failed.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
