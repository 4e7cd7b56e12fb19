"""Time of a training loop that logs, as a ratio to the same loop without: few and many metrics, up to 10,000 calls a second.

Wall time contains what the delivering thread and other programs of the machine take; processor time is that of the training thread.

python -m tests.benchmarks.logging_loop [--repeats 5]
"""

import argparse
import multiprocessing
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tests.benchmarks.results import REPEATS, Benchmark, Ratio, Side, run_alone
from tests.workers.reporting.conftest import Ingest, serving
from troupe_client.reporting.client import ClientRun
from troupe_client.reporting.opening import OpenedRun
from troupe_client.server_api import Server
from workers.reporting.reporter import Reporter
from workers.storage.folders import RunFolder

SIZE = 64
"""Rows of the matrices that a step multiplies."""


@dataclass(frozen=True)
class Load:
    """A training loop: steps of a duration without logging, and what each of them logs."""

    name: str
    milliseconds: float
    metrics: int
    steps: int
    every: int = 1
    """Steps between two calls of log."""


SIDES = ("bare", "logged")
KINDS = ("wall time", "processor time")
LOADS = (
    Load("10 metrics every 10 ms", 10.0, 10, 300),
    Load("10,000 metrics every second", 10.0, 10_000, 300, every=100),
    Load("1,000,000 points in 20 s", 20.0, 1000, 1000),
    Load("10,000 calls a second", 0.1, 1, 30_000),
)


def benchmark(*, small: bool = False) -> Benchmark:
    """Each load with and without logging is a side."""
    loads = [Load(load.name, load.milliseconds, 5, load.every) for load in LOADS] if small else LOADS
    return Benchmark(
        about="time of a training loop that logs, delivered to a server in another process",
        units={name: "s" for load in loads for side in SIDES for name in figures(load, side)},
        open_sides=lambda: open_sides(loads),
        ratios=tuple(
            Ratio(f"{load.name}, {kind}", logged, bare)
            for load in loads
            for kind, logged, bare in zip(KINDS, figures(load, "logged"), figures(load, "bare"), strict=True)
        ),
        settings={"work": f"products of {SIZE}x{SIZE} matrices"},
    )


def figures(load: Load, side: str) -> list[str]:
    """The names of the figures of a side."""
    return [f"{load.name}, {side}, {kind}" for kind in KINDS]


@contextmanager
def open_sides(loads: tuple[Load, ...] | list[Load]) -> Iterator[Mapping[str, Side]]:
    """A server in a process of its own, and the duration of one product of matrices."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    url, product = ours.recv(), seconds_per_product()
    sides: dict[str, Side] = {}
    for load in loads:
        products = max(1, round(load.milliseconds / 1e3 / product))
        sides[f"{load.name}, bare"] = lambda load=load, products=products: turn(load, products, "")
        sides[f"{load.name}, logged"] = lambda load=load, products=products: turn(load, products, url)
    yield sides
    ours.send("end")
    process.join()


def serve(pipe: Connection) -> None:
    """Store what arrives until a message comes."""
    with serving(Ingest()) as url:
        pipe.send(url)
        pipe.recv()


def seconds_per_product() -> float:
    """Duration of a product of matrices, the least of several."""
    least = 1.0
    for _ in range(50):
        started = time.perf_counter()
        work(100)
        least = min(least, (time.perf_counter() - started) / 100)
    return least


def work(products: int) -> None:
    """Multiply matrices."""
    matrix = np.ones((SIZE, SIZE), np.float32)
    for _ in range(products):
        matrix @ matrix


def turn(load: Load, products: int, url: str) -> Mapping[str, float]:
    """Seconds of the loop; with a URL it logs."""
    values = {f"layers/{number}/norm": number * 0.37 for number in range(load.metrics)}
    with TemporaryDirectory() as folder:
        run = ClientRun("benchmark2", None, Path(folder)) if not url else opened(Path(folder), url)
        started, busy = time.perf_counter(), time.thread_time()
        for step in range(load.steps):
            work(products)
            if url and step % load.every == 0:
                run.log(values)
        seconds = time.perf_counter() - started, time.thread_time() - busy
        run.finish()
    return dict(zip(figures(load, SIDES[bool(url)]), seconds, strict=True))


def opened(folder: Path, url: str) -> ClientRun:
    """A run that reports to the server of the benchmark."""
    reporter = Reporter(RunFolder(folder), f"run{time.monotonic_ns()}", 1, url, "secret")
    server = Server(url.removesuffix("/events/"), "secret")
    return ClientRun("benchmark2", reporter, folder, OpenedRun(server, 1, "/"))


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=REPEATS)
    run_alone(benchmark(), "logging_loop", parser.parse_args().repeats)


if __name__ == "__main__":
    main()
