"""One step in this process: `python -m tests.gpu.one_step STEP OUT [--small]`; the program starts it."""

import sys
import time
from pathlib import Path

from tests.benchmarks.results import write_result
from tests.gpu.registry import STEPS
from tests.gpu.results import finished_result
from tests.gpu.setting import make_setting
from training_core.importing import resolve


def run_step(name: str, out: Path, *, small: bool) -> None:
    """Run a step and write its result."""
    setting = make_setting(small, out, name)
    step = STEPS[name]
    start = time.perf_counter()
    figures = resolve(f"tests.gpu.steps.{step.run}")(setting, **step.options)
    write_result(out, name, finished_result(name, setting, figures, time.perf_counter() - start))


if __name__ == "__main__":
    run_step(sys.argv[1], Path(sys.argv[2]), small="--small" in sys.argv[3:])
