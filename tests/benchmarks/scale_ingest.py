"""The ingest of tests/benchmarks/scale.py: the same number of values of few and of many keys, in batches as reporters send them."""

import time
from collections.abc import Iterator

import orjson
import zstandard

from webapp.ingest.services import batch_store
from webapp.runs.models import Attempt, Run

NAMES = 1000
"""Metrics of one event (workers.telemetry.events)."""
BATCH = 1 << 20
"""Bytes of a batch before compression; reporters send about 1 MiB per request."""
FEW = 50


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


def ingest_figures(template: Run, keys: int, values: int) -> dict[str, float]:
    """Store the values in a new run; values per second by the clock and by CPU time of this process (without Postgres)."""
    run = Run.objects.create(
        id=f"in{keys:06}", name=f"{keys} keys", project=template.project, owner=template.owner, config=template.config,
        iterations=template.iterations, state="running",
    )  # fmt: skip
    Attempt.objects.create(run=run, number=1, submission_id=f"{run.pk}-1", state=Attempt.State.LIVE)
    bodies = list(batches(run.pk, keys, values))
    wall, used = time.perf_counter(), time.process_time()
    for body, _ in bodies:
        batch_store(run.pk, body, "zstd")
    wall, used = time.perf_counter() - wall, time.process_time() - used
    count = sum(count for _, count in bodies)
    return {
        "values": count,
        "batches": len(bodies),
        "values/s": count / wall,
        "values per CPU s": count / used,
    }
