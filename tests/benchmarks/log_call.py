"""Time of one `Reporter.metrics` call, as a trainer sees it: events on disk only, and with delivery to a server.

python -m tests.benchmarks.log_call [--repeats 5]
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.results import Benchmark, Side, run_program
from tests.workers.reporting.conftest import Ingest, serving
from workers.reporting.reporter import Reporter
from workers.storage.folders import RunFolder

CALLS, SMALL_CALLS = 5000, 50
KEYS = (1, 10, 50)
DELIVERIES = ("on disk only", "delivered")


def benchmark(*, small: bool = False) -> Benchmark:
    """Each number of metrics with each kind of delivery is a side."""
    calls = SMALL_CALLS if small else CALLS
    names = [name_of(keys, delivery) for delivery in DELIVERIES for keys in KEYS]
    return Benchmark(
        about=f"time of a call that reports metrics, {calls:,} calls in a row",
        units={f"{name}, {what}": "µs" for name in names for what in ("median", "p99")},
        open_sides=lambda: open_sides(calls),
        settings={"calls": calls},
    )


def name_of(keys: int, delivery: str) -> str:
    """The name of a side."""
    return f"{keys} {'metric' if keys == 1 else 'metrics'}, {delivery}"


@contextmanager
def open_sides(calls: int) -> Iterator[Mapping[str, Side]]:
    """A server that stores what it receives."""
    with serving(Ingest()) as url:
        sides: dict[str, Side] = {}
        for delivery, address in zip(DELIVERIES, ("", url), strict=True):
            for keys in KEYS:
                name = name_of(keys, delivery)
                sides[name] = lambda name=name, keys=keys, address=address: turn(name, keys, address, calls)
        yield sides


def turn(name: str, keys: int, url: str, calls: int) -> Mapping[str, float]:
    """Median and 99th percentile of the calls, in microseconds."""
    with TemporaryDirectory() as folder:
        seconds = seconds_per_call(Path(folder), keys, url, calls)
    return {f"{name}, median": seconds[calls // 2] * 1e6, f"{name}, p99": seconds[calls * 99 // 100] * 1e6}


def seconds_per_call(folder: Path, keys: int, url: str, calls: int) -> list[float]:
    """Sorted seconds of calls with `keys` metrics each."""
    reporter = Reporter(RunFolder(folder), f"run{time.monotonic_ns()}", 1, url, "secret")
    values = {f"policy/planner/m{key}": key * 0.37 for key in range(keys)}
    seconds = []
    for step in range(calls):
        started = time.perf_counter()
        reporter.metrics(step, values)
        seconds.append(time.perf_counter() - started)
    reporter.close(timeout=60.0)
    return sorted(seconds)


if __name__ == "__main__":
    run_program("log_call", benchmark, __doc__)
