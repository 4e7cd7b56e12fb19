"""AT-GRPO in one file gives the numbers of the layered code, although it shares nothing with it but task, base model and noise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

from examples.at_grpo import ROLES, train
from tests.architecture.source import ROOT
from tests.golden.runs import metrics

ITERATIONS = 3
pytestmark = [pytest.mark.extended, pytest.mark.timeout(900)]


def test_one_file_gives_the_numbers_of_the_layered_code(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "layered"
    subprocess.run(
        [
            sys.executable,
            *("-m", "workers.run", "--preset", "plan_path_duo", "--local", "--folder", str(folder)),
            *(f"run.iterations={ITERATIONS}", "evaluation.episodes=8"),
        ],
        cwd=ROOT,
        env=os.environ | {"TROUPE_HOME": str(tmp_path), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    layered = metrics(folder)
    rows, policies = train(ITERATIONS, ITERATIONS, tmp_path)
    for iteration, row in enumerate(rows, 1):
        assert len(row) == 10
        assert row == pytest.approx({name: layered[name][str(iteration)] for name in row}, abs=1e-4)
    for role in ROLES:
        stored = load_file(
            folder / "checkpoints" / f"iteration-{ITERATIONS:06d}" / role / "model.safetensors"
        )
        weights = dict(policies[role].model.named_parameters())
        assert set(weights) <= set(stored)
        distance = max(float((weights[name].detach() - stored[name]).abs().max()) for name in weights)
        assert distance < 1e-4, f"the weights of the {role} differ by {distance}"
