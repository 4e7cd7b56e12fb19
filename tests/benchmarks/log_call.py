"""Time of one `Reporter.metrics` call, as a trainer sees it: events on disk only, and with delivery to a server.

python -m tests.benchmarks.log_call
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.workers.reporting.conftest import Ingest, serving
from workers.reporting.reporter import Reporter
from workers.storage.run_folder import RunFolder

CALLS = 5000


def seconds_per_call(folder: Path, keys: int, url: str) -> list[float]:
    """Sorted seconds of CALLS calls with `keys` metrics each."""
    reporter = Reporter(RunFolder(folder), "run1", 1, url, "secret")
    values = {f"policy/planner/m{key}": key * 0.37 for key in range(keys)}
    seconds = []
    for step in range(CALLS):
        started = time.perf_counter()
        reporter.metrics(step, values)
        seconds.append(time.perf_counter() - started)
    reporter.close(timeout=60.0)
    return sorted(seconds)


def main() -> None:
    """Print median, 99th percentile and maximum for 1, 10 and 50 metrics."""
    with serving(Ingest()) as url:
        for address, delivery in (("", "on disk only"), (url, "delivered")):
            for keys in (1, 10, 50):
                with TemporaryDirectory() as folder:
                    seconds = seconds_per_call(Path(folder), keys, address)
                median, high = seconds[CALLS // 2], seconds[CALLS * 99 // 100]
                print(
                    f"{keys:2} metrics, {delivery}: median {median * 1e6:.1f} µs, "
                    f"p99 {high * 1e6:.0f} µs, max {seconds[-1] * 1e3:.1f} ms"
                )


if __name__ == "__main__":
    main()
