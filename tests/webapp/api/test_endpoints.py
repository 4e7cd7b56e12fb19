"""What every address answers."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import OperationalError
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.webapp.api.conftest import Call, episode
from webapp.accounts.models import Project
from webapp.checkpoints.models import Checkpoint
from webapp.metrics.services import points_store
from webapp.runs.models import Attempt, LogLine, Run
from workers.telemetry.events import MetricsEvent


def test_launching_a_preset(call: Call, project: Project) -> None:
    body = {"preset": "plan_path_duo", "overrides": {"run.seed": 3}, "name": "mine", "tags": ["b", "a"]}
    answer = call("runs/", body | {"project": "lab"})
    assert answer.status_code == 201
    told = answer.json()
    run = Run.objects.get()
    assert (told["id"], told["state"], told["name"], told["tags"]) == (run.pk, "queued", "mine", ["a", "b"])
    assert told["links"]["self"] == f"/api/v1/runs/{run.pk}/"
    assert told["links"]["page"] == f"/runs/{run.pk}/"
    assert (run.preset, run.config["run"]["seed"], run.project) == ("plan_path_duo", 3, project)
    for name in ("self", "series", "episodes", "checkpoints", "logs"):
        assert call(told["links"][name]).status_code == 200


def test_a_run_with_its_config_and_attempts(call: Call, run: Run, attempt: Attempt) -> None:
    Run.objects.update(state="running", iteration=30, iterations=120, headline={"eval/success": 0.5})
    told = call(f"runs/{run.pk}/").json()
    facts = (told["state"], told["progress"], told["owner"], told["project"])
    assert facts == ("running", 0.25, "ada", "lab")
    assert told["config"] == run.config and [item["number"] for item in told["attempts"]] == [1]
    assert told["eta_seconds"] is None


def test_the_time_left_counts_from_where_the_attempt_began(call: Call, run: Run, attempt: Attempt) -> None:
    Attempt.objects.update(
        started_at=timezone.now() - timedelta(seconds=100),
        resumed_from="checkpoints/iteration-000020",
        resumed_iteration=20,
    )
    Run.objects.update(state="running", iteration=40, iterations=60)
    assert call(f"runs/{run.pk}/").json()["eta_seconds"] == pytest.approx(100, abs=2)


def test_acts_and_their_refusals(call: Call, run: Run) -> None:
    assert call(f"runs/{run.pk}/resume/", {}).status_code == 409
    assert call(f"runs/{run.pk}/pause/", {}).json()["state"] == "paused"
    assert call(f"runs/{run.pk}/resume/", {}).json()["state"] == "queued"
    assert call(f"runs/{run.pk}/stop/", {}).json()["state"] == "stopped"
    answer = call(f"runs/{run.pk}/stop/", {})
    assert (answer.status_code, answer.json()) == (409, {"detail": "a run that is stopped cannot be stopped"})
    assert call(f"runs/{run.pk}/stop/").status_code == 405


def test_filters_of_runs(call: Call, run: Run) -> None:
    Run.objects.create(
        project=run.project, owner=run.owner, name="ablation", config=run.config, iterations=9, state="failed",
        tags=["grid 5"],
    )  # fmt: skip

    def names(**query: Any) -> list[str]:
        return [item["name"] for item in call("runs/", **query).json()["results"]]

    assert names() == ["ablation", "plan_path_duo"]
    assert names(state="failed") == names(q="ABLA") == names(tag="grid 5") == ["ablation"]
    assert names(q=run.pk) == ["plan_path_duo"]
    assert names(project="lab", q="path duo") == ["plan_path_duo"]
    assert names(project="elsewhere") == []


def test_pages_are_stable_while_new_rows_come_in(call: Call, run: Run) -> None:
    for number in range(7):
        episode(run, f"e{number}")
    seen: list[str] = []
    page = call(f"runs/{run.pk}/episodes/", limit=3).json()
    for extra in ("late 1", "late 2", None):
        seen += [item["name"] for item in page["results"]]
        if extra:
            episode(run, extra)
        page = call(page["next"]).json() if page["next"] else {"results": [], "next": None}
    assert seen == [f"e{number}" for number in range(6, -1, -1)]


def test_runs_made_in_the_same_moment_are_each_on_one_page(call: Call, run: Run) -> None:
    for number in range(6):
        Run.objects.create(
            project=run.project, owner=run.owner, name=f"r{number}", config=run.config, iterations=1
        )
    Run.objects.update(created_at=timezone.now())
    seen: list[str] = []
    page = call("runs/", limit=2).json()
    while True:
        seen += [item["id"] for item in page["results"]]
        if not page["next"]:
            break
        page = call(page["next"]).json()
    assert len(seen) == len(set(seen)) == 7


def test_list_takes_as_many_queries_for_many_runs_as_for_one(call: Call, run: Run, attempt: Attempt) -> None:
    from django.db import connection

    with CaptureQueriesContext(connection) as one:
        call("runs/")
    for number in range(12):
        fields = {"project": run.project, "owner": run.owner, "config": run.config, "state": "running"}
        other = Run.objects.create(name=f"r{number}", iterations=1, **fields)
        Attempt.objects.create(run=other, number=1, submission_id=f"s{number}", started_at=timezone.now())
    with CaptureQueriesContext(connection) as many:
        assert len(call("runs/").json()["results"]) == 13
    assert len(many) <= len(one)


def test_series(call: Call, run: Run) -> None:
    def metrics(step: int, value: Any) -> MetricsEvent:
        head = {"type": "metrics", "run": run.pk, "attempt": 1, "producer": "p", "time": 1000.0}
        return MetricsEvent.model_validate(head | {"seq": step, "step": step, "values": {"loss": value}})

    Run.objects.update(event_count=3)
    run.refresh_from_db()
    points_store(run, 1, 1, [metrics(1, 0.5)])
    points_store(run, 1, 3, [metrics(2, "NaN"), metrics(3, "-Infinity")])
    path = f"runs/{run.pk}/series/"
    assert call(path).json()["keys"][0]["key"] == "loss"
    told = call(path, keys="loss,none").json()
    assert told["cursor"] == 3
    assert told["series"]["loss"]["values"] == [0.5, "NaN", "-Infinity"]
    assert told["series"]["loss"]["steps"] == [1, 2, 3]
    assert call(path, keys="loss", since=1).json()["series"]["loss"]["steps"] == [2, 3]
    assert call(path, keys="loss", points=1).status_code == 200


def test_checkpoints_and_logs(call: Call, run: Run) -> None:
    for iteration in (10, 20):
        path, now = f"c/{iteration}", timezone.now()
        Checkpoint.objects.create(
            run=run, attempt=1, cursor=1, iteration=iteration, path=path, size=5, time=now
        )
    rows = call(f"runs/{run.pk}/checkpoints/").json()["results"]
    assert [row["iteration"] for row in rows] == [20, 10]
    line = {
        "run": run, "attempt": 1, "cursor": 1, "time": timezone.now(), "level": "info", "source": "driver",
    }  # fmt: skip
    first, *_ = [LogLine.objects.create(message=str(number), **line) for number in range(5)]
    LogLine.objects.filter(message="2").update(source="environment-0", level="output")

    def lines(**query: Any) -> str:
        return "".join(row["message"] for row in call(f"runs/{run.pk}/logs/", **query).json()["results"])

    assert (lines(limit=2), lines(after=first.pk), lines(before=first.pk + 3, limit=2)) == (
        "34",
        "1234",
        "12",
    )
    assert lines(after=0, limit=2) == "01", "0 is before the first line"
    assert (lines(source="environment-0"), lines(q="2"), lines(level="info")) == ("2", "2", "0134")


def test_database_that_does_not_answer_is_503(call: Call, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(user: Any, run_id: str) -> Run:
        raise OperationalError("the server closed the connection unexpectedly")

    monkeypatch.setattr("webapp.run_pages.api.run_get", fail)
    answer = call(f"runs/{run.pk}/")
    assert (answer.status_code, answer["Retry-After"]) == (503, "2")
    assert "try again" in answer.json()["detail"]


def test_the_openapi_schema_is_valid(tmp_path: Any, call: Call) -> None:
    call_command("spectacular", validate=True, fail_on_warn=True, file=str(tmp_path / "schema.yml"))
    assert "/api/v1/runs/{run_id}/series/" in (tmp_path / "schema.yml").read_text()
    assert call("/api/schema/", format="json").json()["info"]["title"] == "Troupe"
