"""Cost of ingest by the number of metrics: the same number of values of few and of many keys, in batches as reporters send them.

    python -m tests.benchmarks.scale_ingest [--keys 100000] [--values 1000000] [--rounds 3]

Fills a database of its own. Few and many keys take turns, each in new runs. Prints medians: values per second by the clock (with Postgres)
of the first batches, which insert the metrics, and of the batches after them; of the latter also by CPU time of this process (without
Postgres); and of the later compaction.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import orjson
import zstandard

from tests.conftest import pytest_unconfigure, running_servers

NAMES = 1000
"""Metrics of one event (workers.telemetry.events)."""
BATCH = 1 << 20
"""Bytes of a batch before compression; reporters send about 1 MiB per request."""
FEW = 50


def main(words: list[str] | None = None) -> None:
    """Fill, measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--values", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args(words)
    try:
        with running_servers(fsync="off", synchronous_commit="off", max_wal_size="8GB", autovacuum="off"):
            sys.stdout.write("\n".join(_lines(arguments.keys, arguments.values, arguments.rounds)) + "\n")
    finally:
        pytest_unconfigure()


def _lines(keys: int, values: int, rounds: int) -> Iterator[str]:
    import django

    django.setup()
    from django.core.management import call_command

    from tests.benchmarks.scale_fill import Sizes, fill
    from webapp.runs.models import Run

    call_command("migrate", interactive=False, verbosity=0)
    fill(Sizes(runs=1, episodes=1, keys=1, points=1))
    template = Run.objects.first()
    figures: dict[int, list[dict[str, float]]] = {FEW: [], keys: []}
    for number in range(rounds):
        for count, measured in figures.items():
            measured.append(ingest_figures(template, count, values, number))
    for count, measured in figures.items():
        medians = {name: median(row[name] for row in measured) for name in measured[0]}
        yield f"{count:,} keys: " + ", ".join(f"{medians[name]:,.0f} {name}" for name in medians)


def batches(run: str, keys: int, values: int) -> Iterator[tuple[bytes, int]]:
    """Yield compressed bodies and their numbers of values: `keys` metrics step by step, until there are `values` values."""
    names = [f"part_{number // 1000}/layer_{number // 20}/metric_{number}" for number in range(keys)]
    lines: list[bytes] = []
    seq = step = size = count = total = 0
    pack = zstandard.ZstdCompressor(level=3).compress
    while total < values:
        step += 1
        for first in range(0, keys, NAMES):
            some = names[first : min(first + NAMES, keys, first + values - total)]
            if not some:
                break
            seq += 1
            head = {"run": run, "attempt": 1, "producer": "bench", "seq": seq, "time": 1e9 + step}
            numbers = {name: step * 0.37 + number % 97 for number, name in enumerate(some, first)}
            event = head | {"type": "metrics", "step": step, "values": numbers}
            lines.append(orjson.dumps(event))
            size, count, total = size + len(lines[-1]), count + len(some), total + len(some)
            if size >= BATCH:
                yield pack(b"\n".join(lines)), count
                lines, size, count = [], 0, 0
    if lines:
        yield pack(b"\n".join(lines)), count


def ingest_figures(template: Any, keys: int, values: int, number: int) -> dict[str, float]:
    """Store the values in a new run; values per second by the clock and by CPU time of this process (without Postgres)."""
    from webapp.ingest.services import batch_store
    from webapp.metrics.tasks import compact
    from webapp.runs.models import Attempt, Run

    run = Run.objects.create(
        id=f"in{keys}n{number}", name=f"{keys} keys", project=template.project, owner=template.owner, config=template.config,
        iterations=template.iterations, state="running",
    )  # fmt: skip
    Attempt.objects.create(run=run, number=1, submission_id=f"{run.pk}-1", state=Attempt.State.LIVE)
    bodies = list(batches(run.pk, keys, values))
    stored = 0
    new, later = [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]
    for body, count in bodies:
        wall, used = time.perf_counter(), time.process_time()
        batch_store(run.pk, body, "zstd")
        figures = new if stored < keys else later
        for column, figure in enumerate((count, time.perf_counter() - wall, time.process_time() - used)):
            figures[column] += figure
        stored += count
    began = time.perf_counter()
    compact()
    return {
        "values": stored,
        "batches": len(bodies),
        "values/s while metrics are inserted": new[0] / new[1],
        "values/s later": later[0] / later[1],
        "values per CPU s later": later[0] / later[2],
        "values/s of compaction": stored / (time.perf_counter() - began),
    }


if __name__ == "__main__":
    main()
