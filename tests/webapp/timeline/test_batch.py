"""The anatomy of a batch, by hand: times, orders, sums, who may see it."""

import json
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from webapp.accounts.models import User
from webapp.ingest.services import batch_store
from webapp.runs.models import Attempt, Phase, Run
from webapp.timeline.batches import batch_read
from webapp.timeline.models import Batch
from webapp.timeline.views import heads, sums
from webapp.transcripts.models import Episode


def member(name: str, start: float, reward: float | str, **more: Any) -> dict[str, Any]:
    """Queued at 100; generates for two seconds of version 4, waits one for its environment, generates for one of 5."""
    stages = [
        {"kind": "generate", "start": start, "end": start + 2, "role": "planner", "policy": "p", "versions": [4, 4]},
        {"kind": "environment", "start": start + 2, "end": start + 3},
        {"kind": "generate", "start": start + 3, "end": start + 4, "role": "executor", "policy": "e", "versions": [4, 5]},
    ]  # fmt: skip
    facts = {
        "episode": name, "success": reward == 1.0, "episode_return": reward, "length": 10, "tokens": 80, "turns": 2,
        "staleness": 1, "queued": 100.0, "started": start, "ended": start + 4, "stages": stages,
        "roles": {"planner": {"policy": "p", "reward": 0.5, "tokens": 6, "truncated": False}},
    }  # fmt: skip
    return facts | more


def tell(run: Run, attempt: int, iteration: int, episodes: list[dict[str, Any]]) -> None:
    Attempt.objects.get_or_create(run=run, number=attempt, defaults={"submission_id": f"{run.pk}-{attempt}"})
    seq = Batch.objects.filter(run=run, attempt=attempt).count() + 1
    event = {
        "run": run.pk, "attempt": attempt, "producer": f"hand-{attempt}", "seq": seq, "time": 130.0, "type": "batch",
        "iteration": iteration, "consumed": 120.0, "learnt": 125.0, "episodes": episodes,
    }  # fmt: skip
    batch_store(run.pk, json.dumps(event).encode(), "")


@pytest.fixture
def told(run: Run) -> Run:
    """Three episodes of iteration 7, in two events; the first one's transcript was kept."""
    tell(
        run, 1, 7, [member("1-7-train-0", 102, 1.0), member("1-7-train-1", 101, "NaN", truncated=True, length=99)],
    )  # fmt: skip
    tell(run, 1, 7, [member("1-7-train-2", 110, -0.5, turns=1, failed=True, title="<b>x</b>")])
    Episode.objects.create(
        run=run, attempt=1, cursor=1, name="1-7-train-0", iteration=7, kind="train", task="t", title="t", outcome="o",
        success=True, episode_return=1.0, turn_count=2, tokens=80, started=102, ended=106,
    )  # fmt: skip
    return run


def test_times_by_hand(told: Run) -> None:
    anatomy = batch_read(told, 7)
    assert anatomy and (anatomy.start, anatomy.end, anatomy.attempt, anatomy.partial) == (
        100.0, 125.0, 1, False,
    )  # fmt: skip
    assert [each.name[-1] for each in anatomy.episodes] == ["1", "0", "2"]
    first = anatomy.episodes[1]
    assert first.seconds == {"queued": 2.0, "generate": 3.0, "environment": 1.0, "update": 14.0}
    assert first.transcript == Episode.objects.get().pk and anatomy.episodes[0].transcript is None


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("-start", "201"),
        ("-reward", "021"),
        ("-length", "102"),
        ("turns", "201"),
        ("staleness", "012"),
        ("time", "012"),
    ],
)
def test_orders(told: Run, sort: str, order: str) -> None:
    anatomy = batch_read(told, 7, sort)
    assert anatomy and "".join(each.name[-1] for each in anatomy.episodes) == order


def test_sums_by_hand(told: Run) -> None:
    anatomy = batch_read(told)
    assert anatomy
    shown = {tile["label"]: (tile["value"], tile["under"]) for tile in sums(anatomy)}
    # queued 2 + 1 + 10, generating 9, environment 3, before the update 14 + 15 + 6: 60 seconds
    assert shown["generating"][0] == "15%" and shown["environment"][0] == "5%"
    assert shown["before the update"] == ("58%", "queued at the start: 22%")
    assert shown["staleness"] == ("1.00", "3 of mixed versions")
    assert shown["solved"] == (
        "50%",
        "33% truncated",
    )  # of the two episodes that did not fail
    leads = {head["sort"]: head["leads"] for head in heads("-reward")}
    assert (leads["reward"], leads["start"], leads["turns"]) == ("reward", "start", "-turns")


def test_success_that_nobody_knows_is_not_counted(told: Run) -> None:
    Episode.objects.update(success=None)
    Batch.objects.all().delete()
    anatomy = batch_read(told, 7)
    assert anatomy and [each.success for each in anatomy.episodes] == [None]
    assert {tile["label"]: tile["value"] for tile in sums(anatomy)}["solved"] == "–"


def test_the_latest_attempt_s_batch_is_shown(told: Run) -> None:
    tell(told, 2, 7, [member("2-7-train-0", 100, 0.0)])
    anatomy = batch_read(told, 7)
    assert anatomy and [each.name for each in anatomy.episodes] == ["2-7-train-0"] and anatomy.attempt == 2


def test_without_batches_transcripts_say_what_they_can(run: Run) -> None:
    assert batch_read(run) is None
    Episode.objects.create(
        run=run, attempt=1, cursor=1, name="mine", iteration=3, kind="train", task="t", title="t", outcome="o",
        success=True, episode_return=1.0, turn_count=2, tokens=80, started=102, ended=106,
    )  # fmt: skip
    anatomy = batch_read(run)
    assert anatomy and anatomy.partial and anatomy.iteration == 3
    assert anatomy.episodes[0].seconds == {"queued": 0.0, "generate": 0.0, "environment": 0.0, "update": 0.0}


def test_page_and_api(told: Run, user: User, ada: Client) -> None:
    page = ada.get(f"/runs/{told.pk}/timeline/?iteration=7&sort=-length").content.decode()
    assert "Batch of iteration 7" in page and page.index("1-7-train-1") < page.index("1-7-train-0")
    assert f"/runs/{told.pk}/episodes/{Episode.objects.get().pk}/" in page and "<b>x</b>" not in page
    for query in ("?iteration=x", "?iteration=99999999999", "?iteration=7&sort=<b>", "?iteration=9"):
        assert ada.get(f"/runs/{told.pk}/timeline/{query}").status_code == 200
    api = APIClient()
    api.force_authenticate(user)
    said = api.get(f"/api/v1/runs/{told.pk}/batches/7/", {"sort": "-length"}).json()
    assert [each["length"] for each in said["episodes"]] == [99, 10, 10]
    assert said["episodes"][0]["episode_return"] == "NaN"
    assert said["episodes"][0]["stages"][2]["versions"] == [4, 5]
    assert api.get(f"/api/v1/runs/{told.pk}/batches/8/").status_code == 404
    assert api.get(f"/api/v1/runs/{told.pk}/batches/99999999999/").status_code == 404
    assert api.get(f"/api/v1/runs/{told.pk}/batches/7/", {"sort": "x"}).status_code == 400
    api.force_authenticate(User.objects.create_user("eve"))
    assert api.get(f"/api/v1/runs/{told.pk}/batches/7/").status_code == 404


def test_model_flops_of_the_batch(told: Run) -> None:
    facts = {"run": told, "cursor": 1, "worker": "w", "iteration": 7, "start": 120.0, "end": 124.0}
    Phase.objects.create(attempt=1, phase="update", flops=2e12, peak=5e12, **facts)
    Phase.objects.create(attempt=1, phase="rollout", flops=8e9, **facts)
    Phase.objects.create(attempt=2, phase="update", flops=9e12, peak=5e12, **facts)
    anatomy = batch_read(told, 7)
    assert anatomy
    shown = {tile["label"]: (tile["value"], tile["under"]) for tile in sums(anatomy)}
    assert shown["update, MFU"] == ("10.0%", "500 GFLOP/s")
    assert shown["rollout, model FLOPs"] == ("2 GFLOP/s", "the device's peak is unknown")
