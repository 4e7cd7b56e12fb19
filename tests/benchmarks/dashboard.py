"""Server time of the runs table with many runs, and of a series with many points.

    python -m tests.benchmarks.dashboard [--repeats 5]

Milliseconds of requests to the real views, on a real PostgreSQL, one process.
"""

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from tests.benchmarks.results import REPEATS, Benchmark, Side, run_alone
from tests.benchmarks.web import Client, connection, logged_in, request_side
from training_core.config.files import load_config
from webapp.accounts.models import Project, User
from webapp.metrics.arrays import pack_floats, pack_ints
from webapp.metrics.models import Chunk, Series
from webapp.runs.models import Run, RunNote

RUNS, POINTS = 10_000, 1_000_000
SMALL_RUNS, SMALL_POINTS = 200, 5_000
COLUMNS = (
    "progress,run.seed,algorithm.type,eval/success:max,policy/planner/kl,policy/planner/entropy,owner,created"
)
KEYS = ("eval/success", "train/return", "policy/planner/kl", "policy/planner/entropy", "time/update")
SERIES = "a series, 1,500 points drawn"
API = {
    "the API's first page": {},
    "the API's, custom columns and order": {"columns": COLUMNS, "sort": "-run.seed"},
}


def requests(runs: int) -> dict[str, tuple[dict[str, str], str]]:
    """By name, a query of the runs table and the count that its page states."""
    by_config = "algorithm.type = at_grpo and run.seed < 3"
    return {
        "newest first": ({}, f"{runs} runs"),
        "words": ({"q": "run 77"}, " runs"),
        "by config": ({"filter": by_config}, f"{runs * 3 // 10} runs"),
        "by metric": ({"filter": "eval/success >= 0.9 and state = finished"}, f"{runs // 40} runs"),
        "ordered by success": ({"sort": "-eval/success"}, f"{runs} runs"),
        "families": ({"group": "family"}, f"{runs // 10} experiments"),
        "custom columns": ({"columns": COLUMNS}, f"{runs} runs"),
        "custom columns, by config": (
            {"columns": COLUMNS, "filter": "run.seed < 3"},
            f"{runs * 3 // 10} runs",
        ),
        "ordered by a metric's best": (
            {"columns": COLUMNS, "sort": "-policy/planner/kl:max"},
            f"{runs} runs",
        ),
        "ordered by config": ({"columns": COLUMNS, "sort": "run.seed"}, f"{runs} runs"),
        "by config, ordered by config": (
            {"filter": "algorithm.type = at_grpo", "sort": "-run.seed"},
            f"{runs} runs",
        ),
        "by a metric's best": ({"filter": "policy/planner/kl:max > 0.5"}, f"{runs // 2 - 1} runs"),
        "by note": ({"filter": "note ~ NOTE"}, f"{runs // 10} runs"),
        "families, custom columns": ({"group": "family", "columns": COLUMNS}, f"{runs // 10} experiments"),
    }


def benchmark(*, small: bool = False) -> Benchmark:
    """Each request is a side."""
    runs, points = (SMALL_RUNS, SMALL_POINTS) if small else (RUNS, POINTS)
    return Benchmark(
        about=f"server time of a request: {runs:,} runs, a series of {points:,} points",
        units=dict.fromkeys([*requests(runs), *API, SERIES], "ms"),
        open_sides=lambda: open_sides(runs, points),
        settings={"runs": runs, "points": points},
    )


@contextmanager
def open_sides(runs: int, points: int) -> Iterator[Mapping[str, Side]]:
    """A database with the runs and the series."""
    with logged_in() as client:
        fill(runs)
        sides = {
            name: request_side(client, name, "/runs/", query, partial(states, count))
            for name, (query, count) in requests(runs).items()
        }
        sides |= {name: request_side(client, name, "/api/v1/runs/", query) for name, query in API.items()}
        yield sides | {SERIES: series_side(client, points)}


def states(count: str, page: bytes) -> bool:
    """Whether a page states a count."""
    return count in page.decode()


def fill(count: int) -> None:
    """Store runs, the facts of their series, and notes."""
    user, lab = User.objects.get(), Project.objects.get()
    tree = load_config("plan_path_duo").model_dump(mode="json")
    runs = [_run(user, lab, tree, number, count) for number in range(count)]
    Run.objects.bulk_create(runs, batch_size=1000)
    Series.objects.bulk_create(
        [
            Series(run=run, key=key, last_value=value, first_value=0.0, min_value=0.0, max_value=value)
            for run in runs
            for key in KEYS
            for value in [run.headline["eval/success"]]
        ],
        batch_size=5000,
    )
    RunNote.objects.bulk_create([RunNote(run=run, text="a note") for run in runs[::10]], batch_size=5000)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def _run(user: User, project: Project, tree: dict[str, Any], number: int, count: int) -> Run:
    return Run(
        project=project,
        owner=user,
        name=f"run {number}",
        preset="plan_path_duo",
        config={**tree, "run": {**tree["run"], "seed": number % 10}},
        family=f"{number // 10:016x}",
        state=("finished", "failed", "stopped", "running")[number % 4],
        iterations=120,
        headline={"eval/success": number / count, "train/return": 1.0},
        tags=["base"] if number % 3 else [],
    )


def series_side(client: Client, points: int) -> Side:
    """Reads a series of many points as a chart does."""
    run = Run.objects.create(
        project=Project.objects.get(),
        owner=User.objects.get(),
        name="long",
        config={},
        iterations=1,
        event_count=points,
    )
    values = np.sin(np.arange(points) / 1000)
    series = Series.objects.create(
        run=run,
        key="loss",
        count=points,
        last_step=points - 1,
        last_value=values[-1],
        chunk_count=-(-points // (1 << 16)),
    )
    for first in range(0, points, 1 << 16):
        steps = np.arange(first, min(first + (1 << 16), points))
        packed = {
            "steps": pack_ints(steps),
            "values": pack_floats(values[steps]),
            "times": pack_floats(1e9 + steps),
        }
        Chunk.objects.create(series=series, attempt=1, cursor=first + 1, count=len(steps), **packed)
    address, query = f"/api/v1/runs/{run.pk}/series/", {"keys": "loss", "points": "1500"}
    drawn = client.get(address, query).json()["series"]["loss"]["values"]
    assert 500 <= len(drawn) <= 1500 and abs(max(drawn) - values.max()) < 1e-3
    return request_side(client, SERIES, address, query)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=REPEATS)
    run_alone(benchmark(), "dashboard", parser.parse_args().repeats)


if __name__ == "__main__":
    main()
