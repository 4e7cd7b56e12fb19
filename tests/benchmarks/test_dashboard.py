"""Figures of the pages' server time, printed and never judged by a clock.

    python -m pytest -s -m slow tests/benchmarks/test_dashboard.py

Median and longest of ten requests to the real views, on a real PostgreSQL, one process.
"""

import statistics
import time
from typing import Any

import numpy as np
import pytest
from django.db import connection
from django.test import Client

from training_core.config.files import load_config
from webapp.accounts.models import Membership, Project, User
from webapp.metrics.arrays import pack_floats, pack_ints
from webapp.metrics.models import Chunk, Series
from webapp.runs.models import Run, RunNote

pytestmark = [pytest.mark.slow, pytest.mark.django_db]
RUNS = 10_000
POINTS = 1_000_000


@pytest.fixture
def client(servers: Any, db: None) -> Client:
    """Logged in as the owner of the project lab."""
    user = User.objects.create_user("ada")
    lab = Project.objects.create(slug="lab", name="Lab")
    Membership.objects.create(project=lab, user=user, level=Membership.Level.OWNER)
    client = Client()
    client.force_login(user)
    return client


def figures(client: Client, what: str, address: str, query: dict[str, Any]) -> bytes:
    """Ask eleven times, the first unmeasured; print, and give the last answer's body."""
    costs = []
    for _ in range(11):
        began = time.perf_counter()
        answer = client.get(address, query)
        costs.append((time.perf_counter() - began) * 1e3)
        assert answer.status_code == 200
    print(f"\n{what}: median {statistics.median(costs[1:]):.0f} ms, longest {max(costs[1:]):.0f} ms", end="")
    return answer.content


def test_a_table_of_many_runs(client: Client) -> None:
    ada, lab = User.objects.get(), Project.objects.get()
    tree = load_config("plan_path_duo").model_dump(mode="json")
    states = ("finished", "failed", "stopped", "running")
    runs = [
        Run(
            project=lab,
            owner=ada,
            name=f"run {number}",
            preset="plan_path_duo",
            config={**tree, "run": {**tree["run"], "seed": number % 10}},
            family=f"{number // 10:016x}",
            state=states[number % 4],
            iterations=120,
            headline={"eval/success": number / RUNS, "train/return": 1.0},
            tags=["base"] if number % 3 else [],
        )
        for number in range(RUNS)
    ]
    Run.objects.bulk_create(runs, batch_size=1000)
    keys = ("eval/success", "train/return", "policy/planner/kl", "policy/planner/entropy", "time/update")
    Series.objects.bulk_create(
        [
            Series(run=run, key=key, last_value=value, first_value=0.0, min_value=0.0, max_value=value)
            for run in runs
            for key in keys
            for value in [run.headline["eval/success"]]
        ],
        batch_size=5000,
    )
    RunNote.objects.bulk_create([RunNote(run=run, text="a note") for run in runs[::10]], batch_size=5000)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    own = "progress,run.seed,algorithm.type,eval/success:max,policy/planner/kl,policy/planner/entropy,owner,created"
    requests: list[tuple[str, dict[str, str], str]] = [
        ("newest first", {}, "10000 runs"),
        ("words", {"q": "run 77"}, " runs"),
        ("by config", {"filter": "algorithm.type = at_grpo and run.seed < 3"}, "3000 runs"),
        ("by metric", {"filter": "eval/success >= 0.9 and state = finished"}, "250 runs"),
        ("ordered by success", {"sort": "-eval/success"}, "10000 runs"),
        ("families", {"group": "family"}, "1000 experiments"),
        ("own columns", {"columns": own}, "10000 runs"),
        ("own columns, by config", {"columns": own, "filter": "run.seed < 3"}, "3000 runs"),
        ("ordered by a metric's best", {"columns": own, "sort": "-policy/planner/kl:max"}, "10000 runs"),
        ("ordered by config", {"columns": own, "sort": "run.seed"}, "10000 runs"),
        (
            "by config, ordered by config",
            {"filter": "algorithm.type = at_grpo", "sort": "-run.seed"},
            "10000 runs",
        ),
        ("by a metric's best", {"filter": "policy/planner/kl:max > 0.5"}, "4999 runs"),
        ("by note", {"filter": "note ~ NOTE"}, "1000 runs"),
        ("families, own columns", {"group": "family", "columns": own}, "1000 experiments"),
    ]
    for what, query, said in requests:
        assert said in figures(client, f"{RUNS:,} runs, {what}", "/runs/", query).decode()
    figures(client, "the API's first page", "/api/v1/runs/", {})
    figures(
        client, "the API's, own columns and order", "/api/v1/runs/", {"columns": own, "sort": "-run.seed"}
    )


def test_a_series_of_many_points(client: Client) -> None:
    run = Run.objects.create(
        project=Project.objects.get(),
        owner=User.objects.get(),
        name="long",
        config={},
        iterations=1,
        event_count=POINTS,
    )
    values = np.sin(np.arange(POINTS) / 1000)
    series = Series.objects.create(
        run=run, key="loss", count=POINTS, last_step=POINTS - 1, last_value=values[-1], chunk_count=16
    )
    for first in range(0, POINTS, 1 << 16):
        steps = np.arange(first, min(first + (1 << 16), POINTS))
        packed = {
            "steps": pack_ints(steps),
            "values": pack_floats(values[steps]),
            "times": pack_floats(1e9 + steps),
        }
        Chunk.objects.create(series=series, attempt=1, cursor=first + 1, count=len(steps), **packed)
    address = f"/api/v1/runs/{run.pk}/series/"
    figures(client, f"{POINTS:,} points, 1,500 drawn", address, {"keys": "loss", "points": "1500"})
    answer = client.get(address, {"keys": "loss", "points": "1500"}).json()
    drawn = answer["series"]["loss"]["values"]
    assert 1000 <= len(drawn) <= 1500 and max(drawn) == pytest.approx(1.0, abs=1e-6)
