"""Figures, printed and never judged by a clock: what a log call costs the trainer."""

import time
from pathlib import Path
from typing import Any

import pytest

from workers.reporting.reporter import Reporter
from workers.storage.run_folder import RunFolder

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("shipped", [False, True])
@pytest.mark.parametrize("keys", [1, 10, 50])
def test_a_log_call(tmp_path: Path, url: str, ingest: Any, keys: int, shipped: bool) -> None:
    reporter = Reporter(RunFolder(tmp_path), "run1", 1, url if shipped else "", "secret")
    values = {f"policy/planner/m{key}": key * 0.37 for key in range(keys)}
    costs = []
    for step in range(5000):
        began = time.perf_counter()
        reporter.metrics(step, values)
        costs.append(time.perf_counter() - began)
    costs.sort()
    reporter.close(timeout=60.0)
    print(
        f"\n{keys} values, {'shipped' if shipped else 'on disk only'}: median {costs[2500] * 1e6:.1f} µs, "
        f"p99 {costs[4950] * 1e6:.0f} µs, longest {costs[-1] * 1e3:.1f} ms"
    )
