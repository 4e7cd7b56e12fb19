"""Runs steps in turn: every step in a process of its own, with a time limit; finished steps are not repeated."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.benchmarks.folders import ROOT
from tests.benchmarks.results import read_result, write_result
from tests.gpu.registry import STEPS, Call
from tests.gpu.results import FAILED, FINISHED, MISSING, broken_bounds, other_result
from tests.gpu.setting import Figures

LIMIT = 480.0
"""Seconds of wall time after which a step is ended."""
SHORTEST = 20.0
"""Seconds that must remain of a call for another step."""
SHOWN_LINES = 12
"""Lines of a failed step's output that its result repeats."""


def run_steps(
    names: Sequence[str], out: Path, *, small: bool, again: bool, budget: float, limit: float = LIMIT
) -> list[str]:
    """Run the steps whose results are missing; return the names of those that the budget did not allow.

    A step starts only if its estimated time fits into the remaining `budget` (seconds).
    """
    out.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    postponed = []
    for name in names:
        if not again and is_finished(out, name, small=small):
            say(name, "finished earlier; --again repeats it")
            continue
        remaining = budget - (time.monotonic() - start)
        if remaining < (1 if small else STEPS[name].seconds):
            postponed.append(name)
            say(
                name,
                f"postponed: it needs about {STEPS[name].seconds} s, and {max(remaining, 0):.0f} s remain",
            )
            continue
        say(name, STEPS[name].about)
        result = run_step(name, out, small=small, limit=min(limit, remaining))
        say(name, summary(result))
    return postponed


def run_call(call: Call, out: Path, *, small: bool) -> None:
    """Run the steps of a call: those that run side by side, then the others, each until the call's time has passed.

    A step that is ended leaves the figures that it noted.
    """
    out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + call.seconds

    def run(name: str) -> None:
        remaining = end - time.monotonic()
        if remaining < SHORTEST:
            say(name, f"not started: {max(remaining, 0):.0f} s remain")
            return
        say(name, summary(run_step(name, out, small=small, limit=min(LIMIT, remaining))))

    with ThreadPoolExecutor(max(len(call.together), 1)) as pool:
        list(pool.map(run, call.together))
    for name in call.then:
        run(name)


def is_finished(out: Path, name: str, *, small: bool) -> bool:
    """Whether a step's result exists and is of this size."""
    result = read_result(out, name)
    return result is not None and result["state"] == FINISHED and result["small"] == small


def run_step(name: str, out: Path, *, small: bool, limit: float) -> dict[str, Any]:
    """Run a step in a new process; return its result, which is also written if the process crashes."""
    missing = [package for package in STEPS[name].needs if find_spec(package) is None]
    if missing:
        reason = f"{', '.join(missing)} is not installed"
        return _stored(out, name, other_result(name, MISSING, reason, small=small, figures={}))
    before = read_result(out, name)
    _discard(out, name)
    reason = _run_process(name, out, small=small, limit=limit)
    result = read_result(out, name)
    if reason is None and result is not None:
        return result
    figures = _noted(out, name)
    failure = other_result(name, FAILED, reason or "it wrote no result", small=small, figures=figures)
    if before and before["state"] == FINISHED:
        failure["previous"] = before
    return _stored(out, name, failure)


def _run_process(name: str, out: Path, *, small: bool, limit: float) -> str | None:
    """Run the step's process; return the reason of its failure, or None."""
    command = step_command(name, out, small=small)
    log = out / f"{name}.log"
    with log.open("w") as output:
        child = subprocess.Popen(
            command,
            cwd=ROOT,
            env=variables(name),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = child.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            return f"ended at its limit of {limit:.0f} s"
    if status == 0:
        return None
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-SHOWN_LINES:])
    return f"exit status {status}\n{tail}"


def step_command(name: str, out: Path, *, small: bool) -> list[str]:
    """The command of a step's process."""
    return [sys.executable, "-m", "tests.gpu.one_step", name, str(out), *(["--small"] if small else [])]


def variables(name: str) -> dict[str, str]:
    """A step's environment: no network, and little fragmentation of the card's memory (vLLM's sleep mode excludes that setting).

    Packages of PYTHONPATH, such as those installed by --target, remain available.
    """
    segments = {} if "vllm" in STEPS[name].needs else {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}
    return (
        os.environ
        | segments
        | {
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "VLLM_NO_USAGE_STATS": "1",
        }
    )


def summary(result: dict[str, Any]) -> str:
    """One line on a result."""
    if result["state"] != FINISHED:
        return f"{result['state']}: {result['reason']}"
    broken = broken_bounds(result)
    verdict = f"bounds not observed: {', '.join(broken)}" if broken else "no bound is broken"
    return f"finished in {result['seconds']:.0f} s; {verdict}"


def say(name: str, text: str) -> None:
    """Print a line of a step."""
    sys.stdout.write(f"{name:>18} | {text}\n")
    sys.stdout.flush()


def _stored(out: Path, name: str, result: dict[str, Any]) -> dict[str, Any]:
    write_result(out, name, result)
    return result


def _discard(out: Path, name: str) -> None:
    for path in (out / f"{name}.json", out / f"{name}.draft.json"):
        path.unlink(missing_ok=True)


def _noted(out: Path, name: str) -> Figures:
    """The figures that a step noted before it failed."""
    path = out / f"{name}.draft.json"
    try:
        figures: Figures = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return figures
