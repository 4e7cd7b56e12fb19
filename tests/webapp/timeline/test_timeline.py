"""Lanes and waits by hand; the window; who may see it."""

import pytest
from django.test import Client
from rest_framework.test import APIClient

from webapp.accounts.models import User
from webapp.runs.models import Phase, Run
from webapp.timeline.selectors import Lane, timeline_read

pytestmark = pytest.mark.django_db


def span(
    run: Run, worker: str, phase: str, iteration: int, start: float, end: float, policy: str = ""
) -> Phase:
    return Phase.objects.create(
        run=run,
        attempt=1,
        cursor=1,
        worker=worker,
        phase=phase,
        policy=policy,
        iteration=iteration,
        start=start,
        end=end,
    )


@pytest.fixture
def spans(run: Run) -> None:
    for iteration in range(1, 21):
        at = 100.0 * iteration
        span(run, "driver", "rollout", iteration, at, at + 60)
        span(run, "update-0", "update", iteration, at + 60, at + 100, "planner")
        span(run, "update-1", "update", iteration, at + 60, at + 70, "executor<b>")


def test_waits_by_hand_with_spans_that_overlap() -> None:
    lane = Lane(
        "w",
        "",
        [
            Phase(phase="update", start=2, end=6),
            Phase(phase="sync", start=4, end=5),
            Phase(phase="update", start=8, end=9),
        ],
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
    assert [lane.waited(latest.start, latest.end) for lane in latest.lanes] == [400.0, 600.0, 900.0]
    one = timeline_read(run, 3, 3)
    assert one and one.seconds == 100.0 and [len(lane.spans) for lane in one.lanes] == [1, 1, 1]
    early = timeline_read(run, -50, 2)
    assert early and early.first == 1
    beyond = timeline_read(run, 30, 40)
    assert beyond and beyond.lanes == []


def test_page_and_api(run: Run, user: User, spans: None, client: Client) -> None:
    client.force_login(user)
    page = client.get(f"/runs/{run.pk}/timeline/").content.decode()
    assert "Iterations 11 to 20" in page and "waited 90% of the time" in page and "executor<b>" not in page
    assert page.count('height="18"') == 30 and 'href="?first=1&amp;last=10"' in page
    for query in ("?first=x&last=-1", "?last=99999999999999", "?first=30&last=40", "?first=5&last=2"):
        assert client.get(f"/runs/{run.pk}/timeline/{query}").status_code == 200
    api = APIClient()
    api.force_authenticate(user)
    said = api.get(f"/api/v1/runs/{run.pk}/timeline/", {"first": 20, "last": 20}).json()
    assert said["lanes"][1] == {
        "worker": "update-0", "policy": "planner", "busy": {"update": 40.0}, "waited": 60.0,
        "spans": [{"phase": "update", "iteration": 20, "start": 2060.0, "end": 2100.0}],
    }  # fmt: skip
    api.force_authenticate(User.objects.create_user("eve"))
    assert api.get(f"/api/v1/runs/{run.pk}/timeline/").status_code == 404


def test_a_run_without_spans(run: Run, user: User, client: Client) -> None:
    client.force_login(user)
    assert "No spans of work yet" in client.get(f"/runs/{run.pk}/timeline/").content.decode()
    assert timeline_read(run) is None
