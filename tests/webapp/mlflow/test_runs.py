"""Runs of MLflow's clients are runs of Troupe."""

import json
from base64 import b64encode
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from tests.webapp.mlflow.conftest import Ask, asker
from webapp.accounts.models import Membership, Project, User
from webapp.accounts.tokens import token_create
from webapp.metrics.models import Series
from webapp.metrics.selectors import series_read
from webapp.mlflow.views import OPERATIONS
from webapp.quotas.models import Quota
from webapp.reconciliation.services import runs_reconcile_now
from webapp.runs.models import Attempt, Run, RunNote

DATASET = {
    "dataset": {"name": "tasks", "digest": "ab", "source_type": "local", "source": "x"},
    "tags": [],
}


def metric(key: str, value: Any, step: int = 0, timestamp: int = 1_700_000_000_000) -> dict[str, Any]:
    return {"key": key, "value": value, "step": step, "timestamp": timestamp}


def history(ask: Ask, run_id: str, key: str) -> list[tuple[int, Any]]:
    """(step, value) of all points."""
    points = ask("GET", "metrics/get-history", run_id=run_id, metric_key=key)["metrics"]
    return [(point["step"], point["value"]) for point in points]


def test_a_run_is_a_run_of_a_custom_program(ask: Ask, run_id: str, user: User, project: Project) -> None:
    run = Run.objects.get(pk=run_id)
    assert (run.project, run.owner, run.name, run.state, run.is_custom) == (
        project,
        user,
        "bold-ant",
        "running",
        True,
    )
    assert run.tags == ["group:tuning"]
    info = ask("GET", "runs/get", run_id=run_id)["run"]["info"]
    assert (info["status"], info["start_time"], info["user_id"]) == ("RUNNING", 1_700_000_000_000, "ada")
    assert info["artifact_uri"] == f"mlflow-artifacts:/{run_id}/artifacts"


def test_values_are_stored_with_steps_and_times(ask: Ask, run_id: str) -> None:
    points = [
        metric("train/loss", 0.5, 3, 1_700_000_000_123),
        metric("train/loss", "NaN", 4),
        metric("kl", "-Infinity", 4),
    ]
    ask("POST", "runs/log-batch", run_id=run_id, metrics=points)
    ask("POST", "runs/log-metric", run_id=run_id, **metric("train/loss", 0.25, 2))
    run = Run.objects.get(pk=run_id)
    stored = series_read(run, ["train/loss", "kl"])
    assert stored["train/loss"]["steps"] == [2, 3, 4]
    assert stored["train/loss"]["values"] == [0.25, 0.5, "NaN"]
    assert stored["train/loss"]["times"][1] == 1_700_000_000.123
    assert stored["kl"]["values"] == ["-Infinity"]
    assert run.iteration == 4
    latest = {item["key"]: item for item in ask("GET", "runs/get", run_id=run_id)["run"]["data"]["metrics"]}
    assert latest["kl"] == metric("kl", "-Infinity", 4) and latest["train/loss"]["step"] == 4


def test_values_of_one_step_stay_in_their_order_and_a_repeated_request_adds_none(
    ask: Ask, run_id: str
) -> None:
    points = [metric("loss", value, step) for step, value in ((0, 1.0), (0, 2.0), (1, 3.0), (0, 4.0))]
    for _ in range(2):  # a client repeats a request whose response it has not received
        ask("POST", "runs/log-batch", run_id=run_id, metrics=points)
    ask("POST", "runs/log-metric", run_id=run_id, **metric("loss", 4.0, 0, 1_700_000_000_001))
    assert history(ask, run_id, "loss") == [(0, 1.0), (0, 2.0), (0, 4.0), (0, 4.0), (1, 3.0)]


def test_the_history_has_pages(ask: Ask, run_id: str) -> None:
    ask(
        "POST", "runs/log-batch", run_id=run_id, metrics=[metric("loss", step / 2, step) for step in range(5)]
    )
    seen, token = [], ""
    for size in (2, 2, 1):
        page = ask(
            "GET", "metrics/get-history", run_id=run_id, metric_key="loss", max_results=2, page_token=token
        )
        assert len(page["metrics"]) == size
        seen += [point["value"] for point in page["metrics"]]
        token = page.get("next_page_token", "")
    assert seen == [0.0, 0.5, 1.0, 1.5, 2.0] and not token


def test_parameters_are_the_config_and_do_not_change(ask: Ask, run_id: str) -> None:
    family = Run.objects.get(pk=run_id).family
    params = [
        {"key": "lr", "value": "1e-05"},
        {"key": "seed", "value": "7"},
        {"key": "model.name", "value": "tiny"},
    ]
    ask("POST", "runs/log-batch", run_id=run_id, params=params)
    ask("POST", "runs/log-parameter", run_id=run_id, key="lr", value="1e-05")
    refused = ask("POST", "runs/log-parameter", 400, run_id=run_id, key="lr", value="0.1")
    assert refused["error_code"] == "INVALID_PARAMETER_VALUE"
    run = Run.objects.get(pk=run_id)
    assert run.config["client"] == {"lr": 1e-05, "seed": 7, "model.name": "tiny"}
    assert run.config["run"]["seed"] == 7 and run.family != family
    read = ask("GET", "runs/get", run_id=run_id)["run"]["data"]["params"]
    assert sorted(read, key=lambda item: str(item["key"])) == sorted(params, key=lambda item: item["key"])


def test_tags_are_tags_name_and_note(ask: Ask, run_id: str) -> None:
    for key, value in {
        "team": "red",
        "mlflow.note.content": "try",
        "mlflow.runName": "new",
        "mlflow.x": "y",
    }.items():
        ask("POST", "runs/set-tag", run_id=run_id, key=key, value=value)
    ask("POST", "runs/set-tag", run_id=run_id, key="team", value="blue")
    ask("POST", "runs/set-tag", run_id=run_id, key="mlflow.note.content", value="second try")
    run = Run.objects.get(pk=run_id)
    assert (run.name, run.tags) == ("new", ["group:tuning", "team:blue"])
    assert RunNote.objects.get(run=run).text == "second try"
    ask("POST", "runs/delete-tag", run_id=run_id, key="team")
    ask("POST", "runs/delete-tag", 404, run_id=run_id, key="team")
    assert Run.objects.get(pk=run_id).tags == ["group:tuning"]
    tags = {
        item["key"]: item["value"] for item in ask("GET", "runs/get", run_id=run_id)["run"]["data"]["tags"]
    }
    assert tags["mlflow.x"] == "y" and "team" not in tags


def test_a_note_is_by_the_caller_and_replaces_no_note_of_others(
    ask: Ask, experiment: str, project: Project, user: User
) -> None:
    made = ask("POST", "runs/create", experiment_id=experiment, user_id="root")["run"]["info"]
    run_id = made["run_id"]
    assert made["user_id"] == "ada"
    editor = User.objects.create_user("eve", password="x")
    Membership.objects.create(project=project, user=editor, level=Membership.Level.EDITOR)
    asks = {user: ask, editor: asker(token_create(editor, "mlflow", ["launch"])[1])}
    for author, text in ((user, "mine"), (editor, "approved"), (editor, "approved again")):
        asks[author]("POST", "runs/set-tag", run_id=run_id, key="mlflow.note.content", value=text)
    notes = RunNote.objects.filter(run=run_id).values_list("author__username", "text")
    assert set(notes) == {("ada", "mine"), ("eve", "approved again")}


@pytest.mark.parametrize(
    ("status", "state"), [("FINISHED", "finished"), ("FAILED", "failed"), ("KILLED", "stopped")]
)
def test_a_run_ends_and_continues(ask: Ask, run_id: str, status: str, state: str) -> None:
    ask("POST", "runs/log-metric", run_id=run_id, **metric("loss", 1.0, 6))
    info = ask("POST", "runs/update", run_id=run_id, status=status, end_time=1_700_000_060_000)["run_info"]
    assert (info["status"], info["end_time"]) == (status, 1_700_000_060_000)
    run = Run.objects.get(pk=run_id)
    assert (run.state, run.iteration) == (state, 6)
    ask(
        "POST", "runs/log-metric", run_id=run_id, **metric("late", 2.0, 6)
    )  # MLflow accepts values after the end
    assert Run.objects.get(pk=run_id).state == state
    assert ask("POST", "runs/update", run_id=run_id, status="RUNNING")["run_info"]["status"] == "RUNNING"
    ask("POST", "runs/log-metric", run_id=run_id, **metric("loss", 3.0, 7))
    assert list(Run.objects.get(pk=run_id).attempts.values_list("state", flat=True)) == ["ended", "live"]
    assert history(ask, run_id, "loss") == [(6, 1.0), (7, 3.0)] and history(ask, run_id, "late") == [(6, 2.0)]


def test_the_last_status_of_an_ended_run_counts(ask: Ask, run_id: str) -> None:
    """A script that is silent for a day counts as failed, and may finish later."""
    ask("POST", "runs/log-metric", run_id=run_id, **metric("loss", 1.0, 6))
    for status in ("FAILED", "FINISHED", "FINISHED"):
        ask("POST", "runs/update", run_id=run_id, status=status, end_time=1_700_000_060_000)
    info = ask("GET", "runs/get", run_id=run_id)["run"]["info"]
    assert (info["status"], info["end_time"]) == ("FINISHED", 1_700_000_060_000)
    run = Run.objects.get(pk=run_id)
    assert (run.state, run.iteration, run.attempts.count()) == ("finished", 6, 2)
    assert not run.attempts.exclude(state="ended").exists()


def test_a_deleted_run_is_archived(ask: Ask, run_id: str) -> None:
    ask("POST", "runs/update", run_id=run_id, status="FINISHED")
    ask("POST", "runs/delete", run_id=run_id)
    assert Run.objects.get(pk=run_id).archived
    assert ask("GET", "runs/get", run_id=run_id)["run"]["info"]["lifecycle_stage"] == "deleted"
    ask("POST", "runs/restore", run_id=run_id)
    assert not Run.objects.get(pk=run_id).archived


def test_a_deleted_run_does_not_change(ask: Ask, run_id: str) -> None:
    ask("POST", "runs/set-tag", run_id=run_id, key="a", value="b")
    ask("POST", "runs/update", run_id=run_id, status="FINISHED")
    ask("POST", "runs/delete", run_id=run_id)
    before = ask("GET", "runs/get", run_id=run_id)
    for name, arguments in {
        "log-metric": metric("loss", 1.0),
        "log-batch": {"metrics": [metric("loss", 1.0)]},
        "log-parameter": {"key": "a", "value": "b"},
        "set-tag": {"key": "c", "value": "d"},
        "delete-tag": {"key": "a"},
        "update": {"status": "RUNNING"},
        "log-inputs": {"datasets": [DATASET]},
        "outputs": {"models": [{"model_id": "m"}]},
        "log-model": {"model_json": "{}"},
    }.items():
        refused = ask("POST", f"runs/{name}", 400, run_id=run_id, **arguments)
        assert refused["error_code"] == "INVALID_PARAMETER_VALUE", name
    assert ask("GET", "runs/get", run_id=run_id) == before


def test_a_parameter_twice_in_a_batch_is_refused(ask: Ask, run_id: str) -> None:
    for second in ("1", "2"):
        params = [{"key": "lr", "value": "1"}, {"key": "lr", "value": second}]
        ask("POST", "runs/log-batch", 400, run_id=run_id, params=params, metrics=[metric("loss", 1.0)])
    assert Run.objects.get(pk=run_id).config["client"] == {}
    assert not Series.objects.filter(run=run_id).exists()


def test_what_has_no_name_is_refused(ask: Ask, run_id: str) -> None:
    for name in ("log-parameter", "set-tag"):
        ask("POST", f"runs/{name}", 400, run_id=run_id, key="", value="x")


def test_the_beginning_of_time_is_a_time(ask: Ask) -> None:
    run_id = ask("POST", "runs/create", start_time=0)["run"]["info"]["run_id"]
    ended = ask("POST", "runs/update", run_id=run_id, status="FINISHED", end_time=0)["run_info"]
    assert (ended["start_time"], ended["end_time"]) == (0, 0)


def test_what_is_too_long_stays_different(ask: Ask) -> None:
    labels = []
    for end in "ab":
        name = "x" * 200 + end
        experiment = ask("POST", "experiments/create", name=name)["experiment_id"]
        tags = [{"key": "path", "value": name}]
        made = ask("POST", "runs/create", experiment_id=experiment, run_name=name, tags=tags)["run"]
        tags = {tag["key"]: tag["value"] for tag in made["data"]["tags"]}
        assert made["info"]["run_name"] == tags["mlflow.runName"] and len(tags["mlflow.runName"]) == 120
        run = Run.objects.get(pk=made["info"]["run_id"])
        labels += [run.name, *run.tags]
    assert len(set(labels)) == 6 and {len(label) for label in labels} == {60, 120}


def test_code_and_user_are_as_the_client_states(ask: Ask, experiment: str, ada: Client) -> None:
    stated = {
        "source.name": "train.py",
        "source.git.commit": "ab12" * 10,
        "source.git.repoURL": "https://ada:secret-word@example.org/lab/maze.git",
        "user": "someone",
    }
    tags = [{"key": f"mlflow.{key}", "value": value} for key, value in stated.items()]
    made = ask("POST", "runs/create", experiment_id=experiment, tags=tags)
    run_id = made["run"]["info"]["run_id"]
    ask("POST", "runs/update", run_id=run_id, status="FINISHED")
    ask("POST", "runs/update", run_id=run_id, status="RUNNING")
    page = ada.get(f"/runs/{run_id}/config/?attempt=2").content.decode()
    assert all(text in page for text in ("train.py", "ab12" * 10, "someone", "maze"))
    assert "secret-word" not in page and "uncommitted" not in page


def test_data_sets_are_stored_once(ask: Ask, run_id: str) -> None:
    again = {**DATASET, "tags": [{"key": "mlflow.data.context", "value": "eval"}]}
    for dataset in (DATASET, again):
        ask("POST", "runs/log-inputs", run_id=run_id, datasets=[dataset])
    assert ask("GET", "runs/get", run_id=run_id)["run"]["inputs"]["dataset_inputs"] == [DATASET]


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": "a,b"},
        {"key": "/x"},
        {"key": "x" * 201},
        {"step": 2**63},
        {"timestamp": -1},
        {"timestamp": "1" + "0" * 400},
        {"value": "much"},
        {"value": None},
    ],
)
def test_a_metric_that_cannot_be_stored_is_refused(ask: Ask, run_id: str, wrong: dict[str, Any]) -> None:
    answer = ask(
        "POST",
        "runs/log-batch",
        400,
        run_id=run_id,
        metrics=[metric("good", 1.0), metric("loss", 1.0) | wrong],
    )
    assert answer["error_code"] == "INVALID_PARAMETER_VALUE"
    assert not Series.objects.filter(run=run_id).exists()


def test_a_full_project_refuses_values(ask: Ask, run_id: str, project: Project) -> None:
    Quota.objects.create(project=project, points=1, stored_points=1)
    refused = ask("POST", "runs/log-metric", 507, run_id=run_id, **metric("loss", 1.0))
    assert refused["error_code"] == "RESOURCE_EXHAUSTED" and not Series.objects.filter(run=run_id).exists()
    Quota.objects.update(points=None)
    ask("POST", "runs/log-metric", run_id=run_id, **metric("loss", 1.0))
    assert history(ask, run_id, "loss") == [(0, 1.0)]


def test_members_only_reach_a_run_and_viewers_only_read(
    ask: Ask, run_id: str, project: Project, stranger: User
) -> None:
    asked = asker(token_create(stranger, "theirs", ["admin"])[1])
    for method, name in (("GET", "runs/get"), ("POST", "runs/log-batch"), ("POST", "runs/delete")):
        assert asked(method, name, 404, run_id=run_id)["error_code"] == "RESOURCE_DOES_NOT_EXIST"
    Membership.objects.create(project=project, user=stranger, level=Membership.Level.VIEWER)
    assert asked("GET", "runs/get", run_id=run_id)["run"]["info"]["run_id"] == run_id
    assert (
        asked("POST", "runs/set-tag", 403, run_id=run_id, key="a", value="b")["error_code"]
        == "PERMISSION_DENIED"
    )
    assert asked("POST", "runs/delete", 403, run_id=run_id)["error_code"] == "PERMISSION_DENIED"


def test_a_token_needs_its_scope(ask: Ask, run_id: str, user: User) -> None:
    reading = asker(token_create(user, "reading", ["read"])[1])
    reading("GET", "runs/get", run_id=run_id)
    reading("POST", "runs/search", experiment_ids=["0"])
    reading("POST", "runs/log-metric", 403, run_id=run_id, **metric("loss", 1.0))
    assert asker("")("GET", "runs/get", 401, run_id=run_id)["error_code"] == "UNAUTHENTICATED"
    assert asker("troupe_wrong")("GET", "runs/get", 401, run_id=run_id)["error_code"] == "UNAUTHENTICATED"


def test_an_address_without_mlflow_and_a_password_work(run_id: str, secret: str) -> None:
    """MLFLOW_TRACKING_URI = the server's, MLFLOW_TRACKING_USERNAME and _PASSWORD."""
    for password, status in ((secret, 200), ("troupe_wrong", 401)):
        header = b64encode(f"ada:{password}".encode()).decode()
        client = Client(headers={"Authorization": f"Basic {header}"})
        got = client.get("/api/2.0/mlflow/runs/get", {"run_id": run_id})
        put = client.put(f"/api/2.0/mlflow-artifacts/artifacts/{run_id}/artifacts/x.txt", b"x")
        listed = client.get("/api/2.0/mlflow-artifacts/artifacts", {"path": f"{run_id}/artifacts"})
        assert [got.status_code, put.status_code, listed.status_code] == [status] * 3
    assert Client(headers={"Authorization": "Basic x"}).get("/api/2.0/mlflow/runs/get").status_code == 401


def test_a_silent_program_is_given_up_after_a_day(
    ask: Ask, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow's clients report nothing between values."""
    for name in ("make_launcher", "jobs_end"):
        monkeypatch.setattr(f"webapp.reconciliation.services.{name}", lambda _: None)
    for hours, state in ((23, "running"), (25, "failed")):
        then = timezone.now() - timedelta(hours=hours)
        monkeypatch.setattr("webapp.reconciliation.services.process_start", lambda then=then: then)
        Attempt.objects.filter(run=run_id).update(heartbeat_at=then)
        runs_reconcile_now()
        assert Run.objects.get(pk=run_id).state == state
    ask("POST", "runs/log-metric", run_id=run_id, **metric("loss", 1.0))
    assert Run.objects.get(pk=run_id).state == "running"


def test_pages_show_it_as_any_other_run(ask: Ask, run_id: str, ada: Client) -> None:
    ask(
        "POST",
        "runs/log-batch",
        run_id=run_id,
        metrics=[metric("train/loss", 1 / (step + 1), step) for step in range(9)],
    )
    ask("POST", "runs/log-parameter", run_id=run_id, key="lr", value="1e-05")
    for path, text in {"": "train/loss", "curves/": "train/loss", "config/": "1e-05"}.items():
        response = ada.get(f"/runs/{run_id}/{path}")
        assert response.status_code == 200 and text in response.content.decode()
    compared = ada.get("/compare/", {"runs": run_id})
    assert compared.status_code == 200 and "bold-ant" in compared.content.decode()
    listed = ada.get(
        "/api/v1/runs/", {"filter": "client.lr < 0.001 and train/loss < 0.2 and tag = group:tuning"}
    )
    assert [run["id"] for run in listed.json()["results"]] == [run_id]


def test_a_token_of_another_project_reaches_nothing(
    ask: Ask, run_id: str, experiment: str, user: User
) -> None:
    """Its user is a member of both projects."""
    other = Project.objects.create(slug="other", name="Other")
    Membership.objects.create(project=other, user=user, level=Membership.Level.OWNER)
    secret = token_create(user, "other", ["admin"], project=other)[1]
    client = Client(headers={"Authorization": f"Bearer {secret}"})
    named = {"run_id": run_id, "experiment_id": experiment, "key": "a", "new_name": "b", "metric_key": "a"}
    for project in ("", "lab/", "other/"):
        path = f"/mlflow/{project}api/2.0/"
        for method, name in OPERATIONS:
            if name in ("experiments/create", "experiments/get-by-name") or name.endswith("/search"):
                continue
            asked = named if method == "GET" else json.dumps(named)
            send = client.get if method == "GET" else client.post
            response = send(f"{path}mlflow/{name}", asked, content_type="application/json")
            assert response.status_code == 404, (name, response.content)
        file = f"{path}mlflow-artifacts/artifacts/{run_id}/artifacts/x.txt"
        assert client.put(file, b"x").status_code == client.get(file).status_code == 404
        listed = client.get(f"{path}mlflow-artifacts/artifacts", {"path": f"{run_id}/artifacts"})
        assert listed.status_code == 404
    searched = asker(secret)("POST", "runs/search", experiment_ids=[experiment, "x", "9" * 30])
    assert searched == {"runs": []}


def test_texts_of_a_run_have_a_limit(ask: Ask, run_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.mlflow.protocol.MOST_BYTES", 100)
    large, tags = "x" * 60, [{"key": f"t{number}", "value": ""} for number in range(30)]
    for number, status in ((1, 200), (2, 400)):
        ask("POST", "runs/log-parameter", status, run_id=run_id, key=f"p{number}", value=large)
        dataset = {"name": large, "digest": str(number)}
        ask("POST", "runs/log-inputs", status, run_id=run_id, datasets=[{"dataset": dataset}])
    ask("POST", "runs/log-batch", 400, run_id=run_id, tags=tags)
    assert Run.objects.get(pk=run_id).config["client"] == {"p1": large}
    monkeypatch.undo()
    ask("POST", "runs/log-batch", run_id=run_id, tags=tags)
    assert len(Run.objects.get(pk=run_id).tags) == 1 + 20
