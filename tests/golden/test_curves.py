"""Seeded runs give the recorded numbers: bit for bit on the machine of the recording."""

from pathlib import Path

import pytest

from tests.golden.runs import RUNS, machine, record, recorded

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

FAMILIES = {"plan_path_duo-little", "spread_mappo"}
"""A quick run each with language models and small networks; the others are extended tests."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder that keeps base models from one run to the next."""
    return tmp_path_factory.mktemp("home")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FAMILIES else pytest.mark.extended) for name in RUNS]
)
def test_a_run_gives_the_recorded_numbers(name: str, home: Path) -> None:
    """Elsewhere rounding differs, and training the base model magnifies it: there, metrics and steps are compared."""
    expected, found = recorded(name), record(name, home)
    if expected.machine == machine():
        assert found == expected
    steps = {metric: set(values) for metric, values in expected.metrics.items()}
    assert {metric: set(values) for metric, values in found.metrics.items()} == steps
