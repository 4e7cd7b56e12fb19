"""Benchmarks of ingest: values per second, reads of many points, time of a request. `pytest -s tests/benchmarks/test_ingest.py -m slow`."""

import json
import time
from typing import Any

import orjson
import pytest
import zstandard

from tests.webapp.conftest import _servers, project, run, user
from tests.webapp.ingest.conftest import attempt, event, post, send, token
from webapp.ingest.services import batch_store
from webapp.metrics.selectors import series_read
from webapp.metrics.tasks import compact
from webapp.runs.models import Attempt, Run

__all__ = ["_servers", "attempt", "event", "post", "project", "run", "send", "token", "user"]
pytestmark = [pytest.mark.extended, pytest.mark.django_db]
KEYS = 50
BATCHES = 60


def body(run: Run, first: int, count: int) -> bytes:
    lines = [
        orjson.dumps(
            {"run": run.pk, "attempt": 1, "producer": "p", "seq": seq, "time": float(seq), "type": "metrics"}
            | {"step": seq, "values": {f"policy/p/m{key}": seq * 0.37 + key for key in range(KEYS)}}
        )
        for seq in range(first, first + count)
    ]
    return zstandard.compress(b"\n".join(lines))


@pytest.mark.parametrize("steps", [1, 10, 50])
def test_values_a_second(run: Run, attempt: Attempt, steps: int) -> None:
    batches = [body(run, 1 + index * steps, steps) for index in range(60)]
    began = time.perf_counter()
    for batch in batches:
        batch_store(run.pk, batch, "zstd")
    seconds = time.perf_counter() - began
    values = 60 * steps * KEYS
    print(f"\n{steps} steps a batch: {values / seconds:,.0f} values/s, {seconds / 60 * 1e3:.1f} ms a batch")


def test_reading_many_points(run: Run, attempt: Attempt) -> None:
    for index in range(BATCHES):
        batch_store(run.pk, body(run, 1 + index * 80, 80), "zstd")
    for said in (f"{BATCHES} blocks", "compacted"):
        began = time.perf_counter()
        json.dumps(series_read(run, [f"policy/p/m{key}" for key in range(KEYS)], 1500))
        print(f"\n{BATCHES * 80 * KEYS:,} points, {said}: {(time.perf_counter() - began) * 1e3:.0f} ms")
        began = time.perf_counter()
        compact()
        print(f"compaction: {(time.perf_counter() - began) * 1e3:.0f} ms for {KEYS} series")


def test_one_batch_as_the_view_sees_it(run: Run, event: Any, send: Any) -> None:
    send(event(1))
    began = time.perf_counter()
    for seq in range(2, 102):
        send(event(seq))
    print(f"\nview: {(time.perf_counter() - began) * 10:.1f} ms a request of one event")
