"""The steps with vLLM, in their small form with a build for the CPU: `make test-vllm`."""

from pathlib import Path

import pytest

from tests.benchmarks.results import read_result
from tests.gpu.registry import STEPS
from tests.gpu.results import FINISHED, broken_bounds
from tests.gpu.runner import run_steps

pytestmark = pytest.mark.vllm


@pytest.mark.parametrize("name", [name for name, step in STEPS.items() if "vllm" in step.needs])
def test_a_step_runs_in_its_small_form(name: str, tmp_path: Path) -> None:
    run_steps([name], tmp_path, small=True, again=False, budget=600.0)
    result = read_result(tmp_path, name)
    assert result is not None and result["state"] == FINISHED, result
    assert not broken_bounds(result)
