"""Logged models of MLflow's clients from 3.0 on."""

from typing import Any

import pytest
from django.test import Client

from tests.webapp.mlflow.conftest import Ask, asker
from tests.webapp.mlflow.test_runs import history, metric
from webapp.accounts.models import Membership, Project, User
from webapp.accounts.tokens import token_create
from webapp.runs.models import Run
from workers.provenance.redaction import MASK

Model = dict[str, Any]
FILES = "/mlflow/api/2.0/mlflow-artifacts/artifacts"


def create(ask: Ask, experiment: str, **fields: Any) -> Model:
    """The `info` of a new model."""
    model: Model = ask("POST", "logged-models", experiment_id=experiment, **fields)["model"]["info"]
    return model


@pytest.fixture
def model(ask: Ask, experiment: str, run_id: str) -> Model:
    params, tags = [{"key": "lr", "value": "0.1"}], [{"key": "a", "value": "1"}]
    return create(ask, experiment, name="net", source_run_id=run_id, model_type="x", params=params, tags=tags)


def test_a_model_is_described(user: User, ask: Ask, experiment: str, run_id: str, model: Model) -> None:
    path = f"logged-models/{model['model_id']}"
    assert (model["status"], model["source_run_id"]) == ("LOGGED_MODEL_PENDING", run_id)
    ask("PATCH", f"{path}/tags", tags=[{"key": "a", "value": "2"}, {"key": "b/c", "value": "3"}])
    ask("DELETE", f"{path}/tags/b/c")
    ask("DELETE", f"{path}/tags/none", 404)
    ask(
        "POST",
        f"{path}/params",
        params=[{"key": "size", "value": "9"}, {"key": "api_key", "value": "sk-7Q9xv2Lm4Tz8"}],
    )
    ask("PATCH", path, 400, status="done")
    ask("PATCH", path, status="LOGGED_MODEL_READY")
    read = ask("GET", path)["model"]
    assert {key: read["info"][key] for key in ("experiment_id", "name", "status", "model_type", "tags")} == {
        "experiment_id": experiment, "name": "net", "status": "LOGGED_MODEL_READY", "model_type": "x",
        "tags": [{"key": "a", "value": "2"}],
    }  # fmt: skip
    assert {item["key"]: item["value"] for item in read["data"]["params"]} == {
        "lr": "0.1", "size": "9", "api_key": MASK,
    }  # fmt: skip
    ask("DELETE", path, 403)
    asker(token_create(user, "all", ["admin"])[1])("DELETE", path)
    ask("GET", path, 404)
    assert ask("POST", "logged-models/search", experiment_ids=[experiment]) == {"models": []}


def test_files_of_a_model_are_files_of_its_run(secret: str, ask: Ask, run_id: str, model: Model) -> None:
    """MLflow's clients add the files of a run's models to those of the run, by the name of the model."""
    client = Client(headers={"Authorization": f"Bearer {secret}"})
    root = model["artifact_uri"].removeprefix("mlflow-artifacts:/")
    for path in (f"{root}/MLmodel", f"{root}/data/w.bin", f"{run_id}/artifacts/models/own.txt"):
        assert client.put(f"{FILES}/{path}", b"x").status_code == 200
    paths = {
        folder: [file["path"] for file in client.get(FILES, {"path": folder}).json()["files"]]
        for folder in (root, f"{root}/data", f"{run_id}/artifacts", f"{run_id}/artifacts/models")
    }
    assert list(paths.values()) == [["MLmodel", "data"], ["w.bin"], ["models"], ["own.txt"]]
    assert b"".join(client.get(f"{FILES}/{root}/data/w.bin").streaming_content) == b"x"  # type: ignore[attr-defined]


def test_a_model_without_a_run_has_one_of_its_own(ask: Ask, experiment: str) -> None:
    alone = create(ask, experiment, name="net")
    run = Run.objects.get()
    assert (run.name, run.state, run.tags) == ("net", "finished", ["group:tuning"])
    assert alone["artifact_uri"].startswith(f"mlflow-artifacts:/{run.pk}/") and "source_run_id" not in alone
    ask("POST", "logged-models", 400, experiment_id=experiment, name="a/b")
    ask("POST", "logged-models", 404, experiment_id="987654", name="net")
    assert Run.objects.count() == 1


def test_points_of_a_model_are_those_of_the_run(ask: Ask, run_id: str, model: Model) -> None:
    """`log_model` logs the metrics of its step a second time, as the model's."""
    mine = {"model_id": model["model_id"]}
    plain = [metric("acc", 0.5, 1), metric("acc", "NaN", 2), metric("loss", 3.0, 2)]
    ask("POST", "runs/log-batch", run_id=run_id, metrics=plain)
    again = [point | mine for point in plain] + [metric("acc", 0.75, 2, 1_700_000_000_001) | mine]
    ask("POST", "runs/log-batch", run_id=run_id, metrics=again)
    assert history(ask, run_id, "acc") == [(1, 0.5), (2, "NaN"), (2, 0.75)]
    assert history(ask, run_id, "loss") == [(2, 3.0)]
    on = {"dataset_name": "d", "dataset_digest": "1"}
    ask("POST", "runs/log-metric", run_id=run_id, **metric("acc", 0.25, 1), **on, **mine)
    ask("POST", "runs/log-metric", 404, run_id=run_id, **metric("acc", 9.0, 9), model_id="m-" + "0" * 32)
    assert history(ask, run_id, "acc")[-1] == (2, 0.75)
    read = ask("GET", f"logged-models/{model['model_id']}")["model"]["data"]["metrics"]
    assert [(point["key"], point["value"], point.get("dataset_name")) for point in read] == [
        ("acc", 0.75, None), ("loss", 3.0, None), ("acc", 0.25, "d"),
    ]  # fmt: skip


def test_a_run_names_the_models_that_it_makes_and_reads(ask: Ask, run_id: str, model: Model) -> None:
    made, used = {"model_id": model["model_id"], "step": 3}, {"model_id": model["model_id"]}
    ask("POST", "runs/outputs", run_id=run_id, models=[made])
    for _ in range(2):
        ask("POST", "runs/log-inputs", run_id=run_id, models=[used])
    run = ask("GET", "runs/get", run_id=run_id)["run"]
    assert (run["outputs"]["model_outputs"], run["inputs"]["model_inputs"]) == ([made], [used])


def test_models_are_searched(ask: Ask, experiment: str, run_id: str, subtests: pytest.Subtests) -> None:
    for number, name in enumerate("abc"):
        tags = [{"key": "half", "value": str(number / 2)}]
        made = create(ask, experiment, name=name, source_run_id=run_id if name == "a" else "", tags=tags)
        on = {"dataset_name": "d", "dataset_digest": name}
        for point in (metric("acc", number, 1) | on, metric("val loss", -number), metric("nan", "NaN")):
            own = point | {"model_id": made["model_id"], "timestamp": 1_700_000_000_000 + number}
            ask("POST", "runs/log-metric", run_id=run_id, **own)
    acc = {"field_name": "metrics.acc", "ascending": True}
    for wanted, arguments in (
        ("cba", {}),
        ("b", {"filter": "name = 'b'"}),
        ("cb", {"filter": "metrics.acc >= 1 and tags.half != '0.0'"}),
        ("", {"filter": "metrics.nan > 0"}),
        ("a", {"filter": f"source_run_id = '{run_id}'"}),
        ("cb", {"filter": "metrics.acc > 0", "datasets": [{"dataset_name": "d"}]}),
        ("b", {"filter": "metrics.acc > 0", "datasets": [{"dataset_name": "d", "dataset_digest": "b"}]}),
        ("", {"filter": "metrics.`val loss` < 0", "datasets": [{"dataset_name": "d"}]}),
        ("abc", {"order_by": [acc]}),
        ("bca", {"order_by": [acc | {"dataset_name": "d", "dataset_digest": "b"}]}),
        ("cba", {"order_by": [{"field_name": "metrics.val loss"}]}),
        ("cba", {"order_by": [{"field_name": "name", "ascending": False}]}),
    ):
        with subtests.test(str(arguments)):
            found = ask("POST", "logged-models/search", experiment_ids=[experiment], **arguments)["models"]
            assert "".join(item["info"]["name"] for item in found) == wanted
    for arguments in (
        {"filter": "name > 1"},
        {"order_by": [{"field_name": "x"}]},
        {"datasets": [{}]},
        {"order_by": ["name"]},
    ):
        ask("POST", "logged-models/search", 400, experiment_ids=[experiment], **arguments)


def test_members_only_reach_a_model(
    ask: Ask, experiment: str, run_id: str, model: Model, project: Project, stranger: User
) -> None:
    asked = asker(token_create(stranger, "theirs", ["admin"])[1])
    path = f"logged-models/{model['model_id']}"
    for status in (404, 403):
        for method, name in (
            ("PATCH", path),
            ("DELETE", path),
            ("PATCH", f"{path}/tags"),
            ("POST", f"{path}/params"),
        ):
            asked(method, name, status, status="LOGGED_MODEL_READY")
        asked("POST", "logged-models", status, experiment_id=experiment, source_run_id=run_id)
        asked("GET", path, 404 if status == 404 else 200)
        found = asked("POST", "logged-models/search", experiment_ids=[experiment])["models"]
        assert len(found) == (status == 403)
        Membership.objects.get_or_create(project=project, user=stranger, level=Membership.Level.VIEWER)


def test_clients_before_3_describe_a_model_in_a_tag(ask: Ask, run_id: str) -> None:
    for number in range(2):
        ask("POST", "runs/log-model", run_id=run_id, model_json=f'{{"n": {number}}}')
    ask("POST", "runs/log-model", 400, run_id=run_id, model_json="{")
    tags = ask("GET", "runs/get", run_id=run_id)["run"]["data"]["tags"]
    assert {"key": "mlflow.log-model.history", "value": '[{"n":0},{"n":1}]'} in tags
