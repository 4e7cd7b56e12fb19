"""Server time of the runs table and of charts of groups with many runs, and of series with many points.

    python -m tests.benchmarks.dashboard [--repeats 5]

Milliseconds of requests to the real views, on a real PostgreSQL, one process.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from tests.benchmarks.results import Benchmark, Side, run_program
from tests.benchmarks.scale_fill import KEYS, copy_points
from tests.benchmarks.scale_pages import OWN
from tests.benchmarks.web import Client, connection, logged_in, request_side
from training_core.config.files import load_config
from webapp.accounts.models import Project, User
from webapp.metrics.arrays import Floats, pack_floats, pack_ints
from webapp.metrics.models import Chunk, Series
from webapp.metrics.services import LARGEST_CHUNK
from webapp.runs.models import Run, RunNote

RUNS, POINTS = 10_000, 1_000_000
SMALL_RUNS, SMALL_POINTS = 200, 5_000
SERIES, ALL_SERIES = "a series, 1,500 points drawn", "20 series, 1,500 points drawn of each"
LINES, LINE_POINTS = 20, 100
"""Series of the long run; points of a metric of each run."""
GROUPED = {"a chart of all runs by seed": "run.seed", "a chart of the best families of all runs": "family"}
"""Chart of the groups of all runs: the dotted field, or the digest of the config without the seed."""
API = {
    "the API's first page": {},
    "the API's, custom columns and order": {"columns": OWN, "sort": "-run.seed"},
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
        "custom columns": ({"columns": OWN}, f"{runs} runs"),
        "custom columns, by config": (
            {"columns": OWN, "filter": "run.seed < 3"},
            f"{runs * 3 // 10} runs",
        ),
        "ordered by a metric's best": (
            {"columns": OWN, "sort": "-policy/planner/kl:max"},
            f"{runs} runs",
        ),
        "ordered by config": ({"columns": OWN, "sort": "run.seed"}, f"{runs} runs"),
        "by config, ordered by config": (
            {"filter": "algorithm.type = at_grpo", "sort": "-run.seed"},
            f"{runs} runs",
        ),
        "by a metric's best": ({"filter": "policy/planner/kl:max > 0.5"}, f"{runs // 2 - 1} runs"),
        "by note": ({"filter": "note ~ NOTE"}, f"{runs // 10} runs"),
        "families, custom columns": ({"group": "family", "columns": OWN}, f"{runs // 10} experiments"),
    }


def benchmark(*, small: bool = False) -> Benchmark:
    """Each request is a side."""
    runs, points = (SMALL_RUNS, SMALL_POINTS) if small else (RUNS, POINTS)
    return Benchmark(
        about=f"server time of a request: {runs:,} runs, a series of {points:,} points",
        units=dict.fromkeys([*requests(runs), *API, *GROUPED, SERIES, ALL_SERIES], "ms"),
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
        sides |= {name: grouped_side(client, name, by) for name, by in GROUPED.items()}
        yield sides | series_sides(client, points)


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
    fill_chunks()
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


def fill_chunks() -> None:
    """Store LINE_POINTS points of one metric of each run."""
    steps, draw = np.arange(1, LINE_POINTS + 1), np.random.default_rng(0)
    packed = {"steps": pack_ints(steps), "times": pack_floats(1e9 + steps)}
    series = list(Series.objects.filter(key="eval/success"))
    Chunk.objects.bulk_create(
        [
            Chunk(
                series=row, attempt=1, cursor=1, count=LINE_POINTS, first_step=1, last_step=LINE_POINTS,
                values=pack_floats(row.last_value + draw.normal(0, 0.1, LINE_POINTS)), **packed,
            )
            for row in series
        ],
        batch_size=2000,
    )  # fmt: skip


def grouped_side(client: Client, name: str, by: str) -> Side:
    """Reads a chart of the groups of all runs: mean and standard deviation over the runs of a group."""
    query = {"filter": "name ~ run", "key": "eval/success", "by": by}
    return request_side(client, name, "/api/v1/compare/curves/", query, all_runs_drawn)


def all_runs_drawn(answer: bytes) -> bool:
    """Whether a chart has groups with all points."""
    groups = json.loads(answer)["groups"]
    return len(groups) > 1 and all(len(group["mean"]) == LINE_POINTS for group in groups)


def series_sides(client: Client, points: int) -> dict[str, Side]:
    """Sides that read one, and all, of a run's series of many points as a chart does; stored as after the merge of their chunks."""
    run = Run.objects.create(
        project=Project.objects.get(),
        owner=User.objects.get(),
        name="long",
        config={},
        iterations=1,
        event_count=points,
    )
    keys = [f"loss/{number}" for number in range(LINES)]
    for number, key in enumerate(keys):
        long_series(
            run, key, np.sin(np.arange(points) / 1000) + np.random.default_rng(number).normal(0, 0.1, points)
        )
    address = f"/api/v1/runs/{run.pk}/series/"
    return {
        name: request_side(
            client, name, address, {"keys": ",".join(some), "points": "1500"}, partial(drawn, some)
        )
        for name, some in ((SERIES, keys[:1]), (ALL_SERIES, keys))
    }


def drawn(keys: list[str], answer: bytes) -> bool:
    """Whether an answer has the points of these series."""
    series = json.loads(answer)["series"]
    return list(series) == keys and all(500 <= len(series[key]["values"]) <= 1500 for key in keys)


def long_series(run: Run, key: str, values: Floats) -> None:
    """Store a series in chunks of the size that the merge of chunks makes."""
    count = len(values)
    series = Series.objects.create(
        run=run,
        key=key,
        count=count,
        last_step=count - 1,
        last_value=values[-1],
        chunk_count=-(-count // LARGEST_CHUNK),
    )
    copy_points(series, values)


if __name__ == "__main__":
    run_program("dashboard", benchmark, __doc__)
