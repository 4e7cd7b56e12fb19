"""What every address answers."""

import math
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
from webapp.transcripts.models import EpisodeBody
from workers.launchers.registry import FakeLauncher
from workers.telemetry.events import MetricsEvent


def test_launching_a_preset(call: Call, project: Project) -> None:
    answer = call(
        "runs/",
        {
            "preset": "plan_path_duo",
            "overrides": {"run.seed": 3},
            "name": "mine",
            "tags": ["b", "a"],
            "project": "lab",
        },
    )
    assert answer.status_code == 201
    told = answer.json()
    run = Run.objects.get()
    assert (told["id"], told["state"], told["name"], told["tags"]) == (run.pk, "queued", "mine", ["a", "b"])
    assert told["links"]["self"] == f"/api/v1/runs/{run.pk}/"
    assert told["links"]["page"] == f"/runs/{run.pk}/"
    assert (run.preset, run.config["run"]["seed"], run.project) == ("plan_path_duo", 3, project)
    for name in ("self", "series", "episodes", "checkpoints", "logs"):
        assert call(told["links"][name]).status_code == 200


def test_launching_a_whole_config(call: Call, project: Project) -> None:
    config = next(item for item in call("presets/").json()["results"] if item["name"] == "plan_path_duo")[
        "config"
    ]
    config["run"]["seed"] = 11
    answer = call("runs/", {"config": config})
    assert answer.status_code == 201
    assert Run.objects.get().config == config


def test_presets_and_the_schema(call: Call) -> None:
    preset = call("presets/").json()["results"][0]
    assert set(preset) == {"name", "agents", "description", "expected", "seen", "config", "toml"}
    assert "[team.roles.planner]" in preset["toml"]
    schema = call("schema/run/").json()
    assert "Seed of tasks" in schema["$defs"]["Run"]["properties"]["seed"]["description"]


def test_a_run_with_its_config_and_attempts(call: Call, run: Run, attempt: Attempt) -> None:
    Run.objects.update(state="running", iteration=30, iterations=120, headline={"eval/success": 0.5})
    told = call(f"runs/{run.pk}/").json()
    assert (told["state"], told["progress"], told["owner"], told["project"]) == (
        "running",
        0.25,
        "ada",
        "lab",
    )
    assert told["config"] == run.config
    assert [item["number"] for item in told["attempts"]] == [1]
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


def test_the_list_takes_as_many_queries_for_many_runs_as_for_one(
    call: Call, run: Run, attempt: Attempt
) -> None:
    from django.db import connection

    with CaptureQueriesContext(connection) as one:
        call("runs/")
    for number in range(12):
        other = Run.objects.create(
            project=run.project,
            owner=run.owner,
            name=f"r{number}",
            config=run.config,
            iterations=1,
            state="running",
        )
        Attempt.objects.create(run=other, number=1, submission_id=f"s{number}", started_at=timezone.now())
    with CaptureQueriesContext(connection) as many:
        assert len(call("runs/").json()["results"]) == 13
    assert len(many) <= len(one)


def test_series(call: Call, run: Run) -> None:
    def metrics(step: int, value: Any) -> MetricsEvent:
        return MetricsEvent.model_validate(
            {
                "type": "metrics",
                "run": run.pk,
                "attempt": 1,
                "producer": "p",
                "seq": step,
                "time": 1000.0,
                "step": step,
                "values": {"loss": value},
            }  # fmt: skip
        )

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


@pytest.mark.parametrize(
    ("value", "told"), [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity"), (0.5, 0.5)]
)
def test_returns_that_json_has_no_word_for(call: Call, run: Run, value: float, told: Any) -> None:
    row = episode(run, "a", episode_return=value)
    assert call(f"episodes/{row.pk}/").json()["episode_return"] == told
    assert call(f"runs/{run.pk}/episodes/").json()["results"][0]["episode_return"] == told


def test_an_episode_with_and_without_its_body(call: Call, run: Run) -> None:
    import orjson
    import zstandard

    row = episode(run, "a")
    assert "turns" not in call(f"episodes/{row.pk}/").json()
    data = zstandard.compress(orjson.dumps({"turns": [], "final_board": None}))
    EpisodeBody.objects.create(episode=row, data=data, size=len(data))
    told = call(f"episodes/{row.pk}/").json()
    assert (told["turns"], told["name"], told["run"]) == ([], "a", run.pk)


def test_checkpoints_and_logs(call: Call, run: Run) -> None:
    for iteration in (10, 20):
        Checkpoint.objects.create(
            run=run,
            attempt=1,
            cursor=1,
            iteration=iteration,
            path=f"c/{iteration}",
            size=5,
            time=timezone.now(),
        )
    for number in range(5):
        LogLine.objects.create(
            run=run,
            attempt=1,
            cursor=1,
            time=timezone.now(),
            level="info",
            source="driver",
            message=f"line {number}",
        )
    rows = call(f"runs/{run.pk}/checkpoints/").json()["results"]
    assert [row["iteration"] for row in rows] == [20, 10]
    lines = call(f"runs/{run.pk}/logs/", limit=2).json()["results"]
    assert [line["message"] for line in lines] == ["line 3", "line 4"]
    first = LogLine.objects.order_by("pk")[0]
    after = call(f"runs/{run.pk}/logs/", after=first.pk).json()["results"]
    assert [line["message"] for line in after] == ["line 1", "line 2", "line 3", "line 4"]
    every = call(f"runs/{run.pk}/logs/", after=0, limit=2).json()["results"]
    assert [line["message"] for line in every] == ["line 0", "line 1"], "0 is before the first line"
    before = call(f"runs/{run.pk}/logs/", before=first.pk + 3, limit=2).json()["results"]
    assert [line["message"] for line in before] == ["line 1", "line 2"]
    LogLine.objects.filter(message="line 2").update(source="environment-0", level="output")
    for chosen in ({"source": "environment-0"}, {"q": "NE 2"}):
        lines = call(f"runs/{run.pk}/logs/", **chosen).json()["results"]
        assert [line["message"] for line in lines] == ["line 2"]
    assert len(call(f"runs/{run.pk}/logs/", level="info").json()["results"]) == 4


def test_the_cluster_and_who_holds_it(call: Call, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeLauncher()
    monkeypatch.setattr("webapp.cluster.services.make_launcher", lambda kind: fake)
    told = call("cluster/").json()
    assert told["capacity"] == {"cpus": 2.0, "gpus": 0.0, "free_cpus": 2.0, "free_gpus": 0.0}
    assert [(row["run"], row["holds"], row["cpus"] > 0) for row in told["runs"]] == [(run.pk, False, True)]
    Run.objects.update(config={"of": "another version"})
    fake.reachable = False
    told = call("cluster/").json()
    assert (told["reachable"], told["capacity"], told["runs"][0]["cpus"]) == (False, None, None)


def test_a_database_that_does_not_answer_is_503(
    call: Call, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
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
