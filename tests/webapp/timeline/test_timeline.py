"""Spans of time of a run: lanes, waiting, and the utilisation of devices."""

import json

import pytest
from django.test import Client
from rest_framework.test import APIClient

from tests.webapp.elements import text_of
from webapp.accounts.models import User
from webapp.ingest.batches import IngestRejected
from webapp.ingest.services import batch_store
from webapp.runs.models import Attempt, Phase, Run
from webapp.timeline.services import thinned, timeline_between, timeline_read, utilisation_read
from webapp.timeline.spans import Lane, LaneSpan, lanes_make, lanes_thin, waits_by_iteration, who_waits

pytestmark = pytest.mark.django_db


def span(
    run: Run, worker: str, phase: str, iteration: int, start: float, end: float, policy: str = ""
) -> Phase:
    facts = {
        "worker": worker, "phase": phase, "policy": policy, "iteration": iteration, "start": start, "end": end,
    }  # fmt: skip
    return Phase.objects.create(run=run, attempt=1, cursor=1, **facts)


@pytest.fixture
def spans(run: Run) -> None:
    for iteration in range(1, 21):
        at = 100.0 * iteration
        span(run, "driver", "rollout", iteration, at, at + 60)
        span(run, "update-0", "update", iteration, at + 60, at + 100, "planner")
        span(run, "update-1", "update", iteration, at + 60, at + 70, "executor<b>")


def test_waits_by_hand_with_spans_that_overlap() -> None:
    lane = Lane(
        "w", "", [LaneSpan("update", 1, 2, 6), LaneSpan("sync", 1, 4, 5), LaneSpan("update", 1, 8, 9)]
    )
    assert lane.waited(0, 10) == 5.0 and lane.busy() == {"update": 5.0, "sync": 1.0}
    assert lane.waited(3, 10) == 3.0 and Lane("w", "").waited(1, 4) == 3.0


def test_the_latest_iterations_unless_others_are_asked_for(run: Run, spans: None) -> None:
    latest = timeline_read(run)
    assert latest and (latest.first, latest.last, latest.start, latest.end) == (11, 20, 1100.0, 2100.0)
    assert [(lane.worker, lane.policy) for lane in latest.lanes] == [
        ("driver", ""),
        ("update-0", "planner"),
        ("update-1", "executor<b>"),
    ]
    assert [lane.waited for lane in latest.lanes] == [400.0, 600.0, 900.0]
    one = timeline_read(run, 3, 3)
    assert one and one.end - one.start == 100.0 and [len(lane.spans) for lane in one.lanes] == [1, 1, 1]
    early = timeline_read(run, -50, 2)
    assert early and early.first == 1
    beyond = timeline_read(run, 30, 40)
    assert beyond and beyond.lanes == []


def test_page_and_api(run: Run, user: User, spans: None, ada: Client) -> None:
    page = ada.get(f"/runs/{run.pk}/timeline/").content.decode()
    assert "Iterations 11 to 20" in page and "waited 90% of the time" in page and "executor<b>" not in page
    assert page.count('height="18"') == 30 and 'href="?first=1&amp;last=10"' in page
    for query in ("?first=x&last=-1", "?last=99999999999999", "?first=30&last=40", "?first=5&last=2"):
        assert ada.get(f"/runs/{run.pk}/timeline/{query}").status_code == 200
    api = APIClient()
    api.force_authenticate(user)
    said = api.get(f"/api/v1/runs/{run.pk}/timeline/", {"first": 20, "last": 20}).json()
    assert said["lanes"][1] == {
        "worker": "update-0", "policy": "planner", "label": "update-0 planner", "busy": {"update": 40.0}, "waited": 60.0,
        "device": None, "utilisation": [], "compute": {}, "spans": [{"phase": "update", "iteration": 20, "start": 2060.0, "end": 2100.0}],
    }  # fmt: skip
    api.force_authenticate(User.objects.create_user("eve"))
    assert api.get(f"/api/v1/runs/{run.pk}/timeline/").status_code == 404


def test_a_run_without_spans(run: Run, ada: Client) -> None:
    assert "No spans of work yet" in ada.get(f"/runs/{run.pk}/timeline/").content.decode()
    assert timeline_read(run) is None


def lanes_by_hand() -> list[Lane]:
    stretches = [("a", 0, 4), ("a", 8, 10), ("b", 4, 8), ("c", 2, 6), ("driver", 11, 12)]
    return lanes_make((worker, "", LaneSpan("update", 1, start, end)) for worker, start, end in stretches)


def test_who_waits_for_whom_by_hand() -> None:
    found = {(wait.waiter, wait.awaited): wait.seconds for wait in who_waits(lanes_by_hand(), 0, 12)}
    assert found == {
        ("a", "b"): 3.0, ("a", "c"): 1.0, ("a", None): 1.0, ("a", "driver"): 1.0,
        ("b", "a"): 5.0, ("b", "c"): 1.0, ("b", None): 1.0, ("b", "driver"): 1.0,
        ("c", "a"): 4.0, ("c", "b"): 2.0, ("c", None): 1.0, ("c", "driver"): 1.0,
    }  # fmt: skip
    assert who_waits(lanes_by_hand(), 5, 5) == [] and who_waits([], 0, 1) == []


def test_wait_shares_of_an_iteration_by_hand() -> None:
    (only,) = waits_by_iteration(lanes_by_hand())
    assert (only.iteration, only.start, only.end) == (1, 0, 12)
    assert only.shares == {"a": 0.5, "b": pytest.approx(8 / 12), "c": pytest.approx(8 / 12)}
    assert only.mean == pytest.approx((6 + 8 + 8) / 36)


def test_lanes_are_ordered_by_number_after_the_driver() -> None:
    made = lanes_make(
        (name, "", LaneSpan("update", 1, 0, 1)) for name in ("worker-10", "worker-2", "driver", "worker-2b")
    )
    assert [lane.label for lane in made] == ["driver", "worker-2", "worker-2b", "worker-10"]


def test_spans_too_close_to_draw_are_joined() -> None:
    lane = Lane("w", "", [LaneSpan("rollout", n // 10, n, n + 0.5) for n in range(1000)])
    assert not lanes_thin([lane], 1000, 1000.0) and len(lane.spans) == 1000
    assert lanes_thin([lane], 100, 1000.0)
    assert lane.spans == [LaneSpan("rollout", 0, 0, 999.5)]


def test_a_window_of_moments(run: Run, spans: None, ada: Client) -> None:
    some = timeline_between(run, 350.0, 465.0)
    assert some and (some.first, some.last, some.start, some.end) == (3, 4, 350.0, 465.0)
    assert [len(lane.spans) for lane in some.lanes] == [2, 2, 2] and some.run_end == 2100.0
    assert some.lanes[1].waited == 115 - 40 - 5
    page = ada.get(f"/runs/{run.pk}/timeline/?from=350&to=465").content.decode()
    assert "Iterations 3 to 4" in page
    for query in ("?from=5", "?from=nan&to=3", "?from=9&to=2", "?from=-1&to=1e300", "?from=0&to=1"):
        assert ada.get(f"/runs/{run.pk}/timeline/{query}").status_code == 200
    said = ada.get(f"/api/v1/runs/{run.pk}/timeline/", {"from": 350, "to": 465}).json()
    assert {(wait["waiter"], wait["awaited"]): wait["seconds"] for wait in said["waits"]} == {
        ("update-0 planner", "driver"): 70.0, ("update-1 executor<b>", "driver"): 70.0,
        ("update-1 executor<b>", "update-0 planner"): 30.0,
    }  # fmt: skip
    assert said["iterations"][0]["shares"] == {"update-0 planner": 0.6, "update-1 executor<b>": 0.9}
    refused = ada.get(f"/api/v1/runs/{run.pk}/timeline/", {"from": "9", "to": "x"})
    assert refused.status_code == 400 and list(refused.json()["errors"]) == ["to"]
    refused = ada.get(f"/api/v1/runs/{run.pk}/timeline/", {"from": "9"})
    assert refused.status_code == 400 and "two times" in refused.json()["errors"]["from"]


def test_model_flops_by_hand(run: Run, ada: Client) -> None:
    for iteration, peak in ((1, 4e12), (2, None)):
        for place in range(2):
            begin = 10.0 * iteration + 3 * place
            done = span(run, "gpu-0", "update", iteration, begin, begin + 2, "p")
            Phase.objects.filter(pk=done.pk).update(flops=1e12 * (1 + 2 * place), peak=peak)
        span(run, "gpu-0", "sync", iteration, 10.0 * iteration + 6, 10.0 * iteration + 7, "p")
    said = ada.get(f"/api/v1/runs/{run.pk}/timeline/", {"first": 1, "last": 1}).json()["lanes"][0]
    assert said["compute"] == {"update": {"flops_per_second": 1e12, "mfu": 0.25}}
    assert said["spans"][1] == {
        "phase": "update", "iteration": 1, "start": 13.0, "end": 15.0, "flops": 3e12, "peak": 4e12,
    }  # fmt: skip
    said = ada.get(f"/api/v1/runs/{run.pk}/timeline/", {"first": 1, "last": 2}).json()["lanes"][0]
    assert said["compute"]["update"] == {"flops_per_second": 1e12, "mfu": None}, (
        "one span's peak is not known"
    )
    page = ada.get(f"/runs/{run.pk}/timeline/?first=1&last=1").content.decode()
    assert "update 25.0% MFU, 1 TFLOP/s" in page
    page = ada.get(f"/runs/{run.pk}/timeline/?first=2&last=2").content.decode()
    assert "update 1 TFLOP/s, peak not known" in page


def test_the_overview_has_the_latest_iterations_in_small(run: Run, spans: None, ada: Client) -> None:
    page = ada.get(f"/runs/{run.pk}/").content.decode()
    assert "iterations 19 and 20" in page and page.count('height="18"') == 6
    assert "update-0 planner for driver, 120.00 s" in page and "waited 75% on average" in page
    assert f'href="/runs/{run.pk}/timeline/?first=20&amp;last=20"' in page
    Phase.objects.all().delete()
    assert "time-title" not in ada.get(f"/runs/{run.pk}/").content.decode()


DEVICE = "node-1 GPU 0, NVIDIA H100 80GB HBM3"


def tell(run: Run, seq: int, worker: str, samples: list[list[float]]) -> None:
    Attempt.objects.get_or_create(run=run, number=1, defaults={"submission_id": f"{run.pk}-1"})
    event = {
        "run": run.pk, "attempt": 1, "producer": "hand", "seq": seq, "time": 130.0, "type": "utilisation",
        "worker": worker, "device": DEVICE, "samples": samples,
    }  # fmt: skip
    batch_store(run.pk, json.dumps(event).encode(), "")


def test_a_lane_has_the_load_of_its_worker_s_device(run: Run, ada: Client) -> None:
    for worker in ("planner", "planner-update"):
        facts = {"run": run, "attempt": 1, "cursor": 1, "worker": worker, "policy": "planner", "iteration": 1}
        Phase.objects.create(phase="update", start=100.0, end=110.0, **facts)
    tell(run, 1, "planner", [[98.0, 5.0], [101.0, 90.0], [102.0, 70.0]])
    tell(run, 2, "planner", [[103.0, 20.0], [111.0, 5.0]])
    used, other = ada.get(f"/api/v1/runs/{run.pk}/timeline/").json()["lanes"]
    assert (used["device"], used["utilisation"]) == (DEVICE, [[101.0, 90.0], [102.0, 70.0], [103.0, 20.0]])
    assert (other["device"], other["utilisation"]) == (None, [])
    assert f"60% {DEVICE}" in text_of(ada.get(f"/runs/{run.pk}/timeline/"))


def test_many_samples_are_means_of_stretches() -> None:
    samples = [(float(moment), 10.0 * (moment % 2)) for moment in range(100)]
    few = thinned(samples, 0.0, 100.0, 10)
    assert few == [(10.0 * place, 5.0) for place in range(10)]
    assert thinned(samples[:10], 0.0, 100.0, 10) == samples[:10]
    assert thinned([(1.0, 2.0)] * 3, 1.0, 1.0, 2) == [(1.0, 2.0)] * 3


@pytest.mark.parametrize("samples", [[], [[100.0, 101.0]], [[100.0, -1.0]], [[-1.0, 5.0]]])
def test_what_is_no_share_of_a_device_is_refused(run: Run, samples: list[list[float]]) -> None:
    with pytest.raises(IngestRejected):
        tell(run, 1, "planner", samples)
    assert utilisation_read(run, 0.0, 1e9) == {}
