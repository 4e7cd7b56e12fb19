"""Result files: one JSON file per step, with the machine, the figures and the verdict on every bound."""

import os
import platform
import subprocess
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from tests.benchmarks.folders import ROOT
from tests.gpu.registry import STEPS, Step
from tests.gpu.setting import Figures, Setting

COMMIT_FILE = ROOT / "COMMIT"
"""The packed program's commit, because a pack has no repository."""
FINISHED, FAILED, MISSING = "finished", "failed", "not run"
"""States: it ran to its end; it did not; a package that it needs is not installed."""


def finished_result(name: str, setting: Setting, figures: Figures, seconds: float) -> dict[str, Any]:
    """The result of a step that ran to its end."""
    step = STEPS[name]
    return _result(name, FINISHED, small=setting.small) | {
        "machine": machine(),
        "figures": figures,
        "bounds": verdicts(step, figures, small=setting.small),
        "seconds": round(seconds, 1),
    }


def other_result(name: str, state: str, reason: str, *, small: bool, figures: Figures) -> dict[str, Any]:
    """The result of a step that failed or could not run, with the figures that it had noted."""
    return _result(name, state, small=small) | {"reason": reason, "figures": figures}


def verdicts(step: Step, figures: Figures, *, small: bool) -> list[dict[str, Any]]:
    """Every bound, written out, with its figure and whether it holds (null: not judged on a CPU)."""
    return [
        {"bound": bound.text, "value": figures.get(bound.figure), "holds": bound.holds(figures, small=small)}
        for bound in step.bounds
    ]


def broken_bounds(result: Mapping[str, Any]) -> list[str]:
    """The bounds that a result does not observe."""
    return [row["bound"] for row in result.get("bounds", ()) if row["holds"] is False]


def machine() -> dict[str, Any]:
    """Card, driver, versions and commit."""
    import torch

    card = torch.cuda.is_available()
    return {
        "card": torch.cuda.get_device_name() if card else None,
        "memory_gib": round(torch.cuda.get_device_properties(0).total_memory / 2**30, 1) if card else None,
        "driver": _output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "commit": commit(),
    } | {name: version(name) for name in ("torch", "transformers", "pydantic", "vllm", "deepspeed", "trl")}


def version(package: str) -> str | None:
    """An installed package's version; None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def commit() -> str | None:
    """The commit of the code: the pack's, or the repository's; None if neither is known."""
    if COMMIT_FILE.is_file():
        return COMMIT_FILE.read_text().strip()
    return _output("git", "-C", str(ROOT), "rev-parse", "HEAD")


def _result(name: str, state: str, *, small: bool) -> dict[str, Any]:
    step = STEPS[name]
    return {"step": name, "about": step.about, "options": dict(step.options), "state": state, "small": small}


def _output(*command: str) -> str | None:
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip().splitlines()[0] if answer.stdout.strip() else None
