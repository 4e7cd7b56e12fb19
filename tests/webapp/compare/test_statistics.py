"""Comparisons: figures by hand and by naive loops, and who may see what."""

import random
from itertools import product

import numpy as np
import pytest
from django.test import Client
from rest_framework.test import APIClient

from webapp.accounts.models import Project, User
from webapp.compare.statistics import (
    bootstrap,
    bootstrap_improvement,
    interquartile_mean,
    probability_of_improvement,
)
from webapp.metrics.models import Series
from webapp.runs.models import Run


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([1, 2, 3, 4], 2.5),
        ([0, 0, 1, 100], 0.5),
        ([7], 7),
        ([1, 2, 9], 4),
        ([5, 1, 2, 3, 4, 100, -9, 6], 3.5),
    ],
)
def test_the_middle_half_by_hand(scores: list[float], expected: float) -> None:
    assert interquartile_mean(np.array(scores, dtype=float)[:, None]) == expected


def test_improvement_by_hand_and_by_a_loop() -> None:
    ours, theirs = np.array([[1.0], [2.0]]), np.array([[1.0], [0.0], [3.0]])
    assert probability_of_improvement(ours, theirs) == pytest.approx((0.5 + 1 + 0 + 1 + 1 + 0) / 6)
    draw = random.Random(3)
    left = np.array([[draw.randrange(4) for _ in range(3)] for _ in range(5)], dtype=float)
    right = np.array([[draw.randrange(4) for _ in range(3)] for _ in range(7)], dtype=float)
    wins = sum(
        (left[i, t] > right[j, t]) + (left[i, t] == right[j, t]) / 2
        for i, j, t in product(range(5), range(7), range(3))
    )
    assert probability_of_improvement(left, right) == pytest.approx(wins / 105)
    assert probability_of_improvement(left, right) + probability_of_improvement(right, left) == pytest.approx(
        1.0
    )
    with pytest.raises(ValueError, match="tasks"):
        probability_of_improvement(left, right[:, :2])


def test_an_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    draw = np.random.default_rng(1)
    covered = 0
    for trial in range(40):
        estimate = bootstrap(
            draw.normal(0.5, 0.1, (30, 1)), lambda scores: scores.mean(axis=(-2, -1)), seed=trial
        )
        assert estimate.low <= estimate.value <= estimate.high
        covered += estimate.low <= 0.5 <= estimate.high
    assert 33 <= covered <= 40


def test_the_same_seed_gives_the_same_interval_and_strata_stay_apart() -> None:
    scores = np.array([[0.0, 10.0], [0.0, 10.0], [0.0, 10.0]])
    constant = bootstrap(scores, lambda drawn: drawn.mean(axis=(-2, -1)))
    assert (constant.low, constant.value, constant.high) == (5.0, 5.0, 5.0)
    left, right = np.arange(4.0)[:, None], np.arange(1.0, 6.0)[:, None]
    assert bootstrap_improvement(left, right) == bootstrap_improvement(left, right)
    assert bootstrap_improvement(left, right) != bootstrap_improvement(left, right, seed=1)


def test_intervals_by_a_naive_bootstrap() -> None:
    draw = np.random.default_rng(8)
    ours, theirs = draw.normal(0.3, 1, (9, 2)), draw.normal(0, 1, (7, 2))

    def again(scores: np.ndarray) -> np.ndarray:
        return np.stack([draw.choice(scores[:, task], len(scores)) for task in range(2)], axis=1)

    naive = [probability_of_improvement(again(ours), again(theirs)) for _ in range(3000)]
    found = bootstrap_improvement(ours, theirs)
    assert found.value == probability_of_improvement(ours, theirs)
    assert [found.low, found.high] == pytest.approx(np.quantile(naive, [0.025, 0.975]).tolist(), abs=0.03)
    naive = [float(interquartile_mean(again(ours))) for _ in range(3000)]
    found = bootstrap(ours, interquartile_mean)
    assert [found.low, found.high] == pytest.approx(np.quantile(naive, [0.025, 0.975]).tolist(), abs=0.06)


@pytest.fixture
def api(user: User, project: Project) -> APIClient:
    for family, algorithm, values in (
        ("f1", "grpo", [0.2, 0.4, 0.6]),
        ("f2", "at_grpo", [0.7, 0.9]),
        ("f3", "ppo", [float("nan")]),
    ):
        for number, value in enumerate(values):
            run = Run.objects.create(
                name=f"{family} {number}", pk=f"{family}number{number}", project=project, owner=user, iterations=1,
                config={"algorithm": {"type": algorithm}}, family=family,
            )  # fmt: skip
            Series.objects.create(run=run, key="eval/success", last_value=value)
    client = APIClient()
    client.force_authenticate(user)
    return client


@pytest.mark.parametrize("by", ["family", "algorithm.type"])
def test_groups_and_pairs(api: APIClient, by: str) -> None:
    said = api.get("/api/v1/compare/", {"filter": "iteration >= 0", "by": by}).json()
    rows = {row["group"]: row for row in said["groups"]}
    first = rows["f1" if by == "family" else "grpo"]
    assert first["n"] == 3 and first["mean"] == pytest.approx(0.4) and first["sd"] == pytest.approx(0.2)
    assert first["iqm"] == pytest.approx(0.4)
    assert 0.2 <= first["interval"][0] < 0.4 < first["interval"][1] <= 0.6
    (pair,) = said["pairs"]
    assert pair["probability"] == (1.0 if pair["better"] in ("f2", "at_grpo") else 0.0)
    assert said["without"] == ["f3number0"]


def test_small_networks_are_compared_by_their_return(api: APIClient) -> None:
    """They know no success; another metric, or a run of language models beside them, stays what was asked."""
    Run.objects.filter(family="f1").update(config={"algorithm": {"type": "mappo"}})
    Series.objects.create(run_id="f1number0", key="eval/return", last_value=125.0)
    (row,) = api.get("/api/v1/compare/", {"runs": "f1number0"}).json()["groups"]
    assert row["mean"] == 125.0
    assert api.get("/api/v1/compare/", {"runs": "f1number0", "key": "train/return"}).json()["groups"] == []
    assert api.get("/api/v1/compare/", {"runs": "f1number0,f2number0"}).json()["key"] == "eval/success"


def test_one_run_has_no_interval_and_nothing_is_refused_in_words(api: APIClient) -> None:
    (row,) = api.get("/api/v1/compare/", {"runs": "f1number0"}).json()["groups"]
    assert row["interval"] is None and row["sd"] is None and row["mean"] == pytest.approx(0.2)
    assert api.get("/api/v1/compare/").status_code == 400
    assert api.get("/api/v1/compare/", {"filter": "a ="}).status_code == 400
    assert api.get("/api/v1/compare/", {"runs": "nosuchid"}).status_code == 404
    stranger = APIClient()
    stranger.force_authenticate(User.objects.create_user("eve"))
    assert stranger.get("/api/v1/compare/", {"runs": "f1number0"}).status_code == 404
    assert stranger.get("/api/v1/compare/", {"filter": "iteration >= 0"}).status_code == 400


def test_a_report_begins_with_words_and_links(api: APIClient, ada: Client) -> None:
    Run.objects.filter(pk="f1number0").update(name="left [a]")
    page = ada.get("/compare/", {"runs": "f1number0,f2number0", "key": "eval/success"})
    assert page.context["report"]["title"] == "Comparison of left [a] and f2 0"
    text = page.context["report"]["text"]
    assert text.startswith("*Write here") and "## Conclusion" in text and "```chart" in text
    assert "[left \\[a\\]](/runs/f1number0/)" in text


def test_single_runs_have_no_probability_of_improvement(api: APIClient, ada: Client) -> None:
    single = ada.get("/compare/", {"runs": "f1number0,f2number0"}).content.decode()
    assert "Each group has one run." in single and "ties counting half" not in single
    repeated = ada.get("/compare/", {"runs": "f1number0,f1number1,f2number0", "by": "family"})
    assert "ties counting half" in repeated.content.decode()
