"""The overview of a run of 100,000 iterations: what it moves, and what its tiles show."""

import gzip
import json

import numpy as np
import pytest
from django.test import Client

from tests.benchmarks.scale_fill import copy_points
from tests.webapp.elements import text_of
from webapp.accounts.models import User
from webapp.metrics.models import Series
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db
POINTS = 100_000
KEYS = ["eval/success", "eval_sampled/success", "train/return", "eval/return", "rollout/staleness", "rollout/tokens_per_second"] + [
    f"{name}/{role}/{metric}"
    for name, metric in (("train", "reward"), ("policy", "entropy"), ("policy", "kl"), ("groups", "zero_variance"))
    for role in ("planner", "executor")
]  # fmt: skip
MOST = 200_000
"""Bytes of the compressed page; the chart library has 360,000."""


@pytest.mark.extended
def test_a_long_run_needs_few_bytes(run: Run, user: User, client: Client) -> None:
    client.force_login(user)
    for number, key in enumerate(KEYS):
        values = np.sin(np.arange(POINTS) / 1000) + np.random.default_rng(number).normal(0, 0.1, POINTS)
        series = Series.objects.create(run=run, key=key, count=POINTS, last_step=POINTS - 1)
        copy_points(series, values)
    Run.objects.filter(pk=run.pk).update(event_count=POINTS, state="finished")
    page = client.get(f"/runs/{run.pk}/")
    assert len(gzip.compress(page.content)) < MOST
    series_shown = json.loads(text_of(page, "#run-page"))["series"]
    assert series_shown.keys() >= {*KEYS}
    for number, key in enumerate(KEYS):
        last = np.sin((POINTS - 1) / 1000) + np.random.default_rng(number).normal(0, 0.1, POINTS)[-1]
        assert series_shown[key]["values"][-1] == pytest.approx(last, rel=1e-4)
        assert len(series_shown[key]["values"]) > 500 or key.startswith("rollout/")
