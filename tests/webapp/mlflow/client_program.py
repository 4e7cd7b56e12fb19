"""Calls every public method of MlflowClient against MLFLOW_TRACKING_URI, in an environment with mlflow. Prints JSON.

`calls`: method -> works, refused (by the server, with its message) or local (it ends before a request). `exchange`: the requests of
the methods that work, and the responses.
"""

import inspect
import json
import tempfile
from pathlib import Path
from typing import Any

import requests
from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, Metric, Param, RunTag, ViewType
from mlflow.exceptions import MlflowException

EXCHANGE: list[dict[str, Any]] = []
ROOT = "/mlflow/api/2.0/"
send = requests.Session.request


def recorded(session: requests.Session, method: str, url: str, **options: Any) -> requests.Response:
    """Send a request and record it with its response."""
    content = options["data"].read().decode(errors="replace") if options.get("data") else None
    if content is not None:
        options["data"].seek(0)
    response = send(session, method, url, **options)
    if ROOT in url:
        answer = response.json() if "json" in response.headers.get("Content-Type", "") else response.text
        sent = {"query": options.get("params"), "json": options.get("json"), "content": content}
        asked = {"method": method, "path": url.partition(ROOT)[2]} | {
            k: v for k, v in sent.items() if v is not None
        }
        EXCHANGE.append(asked | {"status": response.status_code, "answer": answer})
    return response


def works(client: MlflowClient) -> set[str]:
    """Use what Troupe stores, as scripts do; returns the names of the methods."""
    experiment = client.create_experiment("tuning", tags={"team": "red"})
    client.set_experiment_tag(experiment, "kind", "rl")
    client.delete_experiment_tag(experiment, "team")
    client.rename_experiment(experiment, "tuning 2")
    assert client.get_experiment_by_name("tuning 2").experiment_id == experiment
    assert client.get_experiment(experiment).tags == {"kind": "rl"}
    client.delete_experiment(experiment)
    assert not client.search_experiments(filter_string="name LIKE 'tuning%'")
    client.restore_experiment(experiment)
    assert client.search_experiments()[0].name == "tuning 2"

    run = client.create_run(
        experiment, start_time=1_700_000_000_000, run_name="bold-ant", tags={"mlflow.user": "ada"}
    )
    run_id = run.info.run_id
    client.log_param(run_id, "lr", 1e-5)
    client.log_metric(run_id, "eval/loss", float("nan"), timestamp=1_700_000_000_500, step=0)
    metrics = [Metric("train/loss", 1 / (step + 1), 1_700_000_001_000 + step, step) for step in range(3)]
    client.log_batch(run_id, metrics, [Param("model", "tiny")], [RunTag("team", "red")])
    client.set_tag(run_id, "note", "x")
    client.delete_tag(run_id, "note")
    client.update_run(run_id, name="calm-bee")
    dataset = Dataset("tasks", "ab12", "local", "tasks.jsonl")
    client.log_inputs(run_id, [DatasetInput(dataset)])
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a.txt").write_text("first")
        client.log_artifact(run_id, f"{folder}/a.txt", "texts")
        client.log_artifacts(run_id, folder)
        client.log_text(run_id, "second", "b.txt")
        client.log_dict(run_id, {"c": 3}, "c.json")
        assert [item.path for item in client.list_artifacts(run_id)] == ["a.txt", "b.txt", "c.json", "texts"]
        assert Path(client.download_artifacts(run_id, "texts/a.txt", folder)).read_text() == "first"
    client.set_terminated(run_id, "FINISHED", end_time=1_700_000_060_000)
    read = client.get_run(run_id)
    assert (read.info.status, read.info.run_name, read.data.params) == (
        "FINISHED",
        "calm-bee",
        {"lr": "1e-05", "model": "tiny"},
    )
    assert read.data.metrics["train/loss"] == 1 / 3 and read.data.tags["team"] == "red"
    assert [(point.step, point.value) for point in client.get_metric_history(run_id, "train/loss")] == [
        (0, 1.0),
        (1, 0.5),
        (2, 1 / 3),
    ]
    found = client.search_runs(
        [experiment],
        "metrics.`train/loss` < 0.5 and params.model = 'tiny'",
        order_by=["metrics.`train/loss`"],
    )
    assert [item.info.run_id for item in found] == [run_id]
    client.delete_run(run_id)
    assert [
        item.info.run_id for item in client.search_runs([experiment], run_view_type=ViewType.DELETED_ONLY)
    ] == [run_id]
    client.restore_run(run_id)
    assert client.get_parent_run(run_id) is None
    return {
        "create_experiment", "set_experiment_tag", "delete_experiment_tag", "rename_experiment", "get_experiment_by_name",
        "get_experiment", "delete_experiment", "search_experiments", "restore_experiment", "create_run", "log_param", "log_metric",
        "log_batch", "set_tag", "delete_tag", "update_run", "log_inputs", "log_artifact", "log_artifacts", "log_text", "log_dict",
        "list_artifacts", "download_artifacts", "set_terminated", "get_run", "get_metric_history", "search_runs", "delete_run",
        "restore_run", "get_parent_run",
    }  # fmt: skip


def works_by_files(client: MlflowClient) -> set[str]:
    """Use the methods that store and read files of a certain kind; returns their names."""
    import matplotlib.pyplot
    import numpy

    run = client.create_run("0")
    client.log_figure(run.info.run_id, matplotlib.pyplot.figure(figsize=(1, 1)), "plots/empty.png")
    client.log_image(run.info.run_id, numpy.zeros((4, 4, 3), dtype=numpy.uint8), key="frame", step=3)
    client.log_table(run.info.run_id, {"answer": ["yes"]}, "answers.json")
    assert client.load_table(run.info.experiment_id, "answers.json").answer.tolist() == ["yes"]
    assert {item.path for item in client.list_artifacts(run.info.run_id)} == {
        "plots",
        "images",
        "answers.json",
    }
    client.set_terminated(run.info.run_id)
    client.delete_run(run.info.run_id)
    return {"log_figure", "log_image", "log_table", "load_table"}


def outcome(client: MlflowClient, name: str) -> str:
    """What a call with arguments of the right type does."""
    method = getattr(client, name)
    if not callable(method):
        return "local"
    arguments = {
        parameter.name: _argument(str(parameter.annotation))
        for parameter in inspect.signature(method).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    }
    before = len(EXCHANGE)
    try:
        method(**arguments)
    except MlflowException as error:
        return f"refused: {error.message}" if "is not supported: Troupe" in error.message else "local"
    except Exception:
        return "local"
    return "local" if len(EXCHANGE) == before else "works"


def _argument(annotation: str) -> Any:
    for word, value in {"list": ["1"], "dict": {}, "int": 1, "float": 1.0, "bool": True}.items():
        if word in annotation:
            return value
    return "1"


def main() -> None:
    """Print the calls and the exchange."""
    requests.Session.request = recorded  # type: ignore[method-assign]
    client = MlflowClient()
    calls = dict.fromkeys(works(client), "works")
    exchange = list(EXCHANGE)
    calls |= dict.fromkeys(works_by_files(client), "works")
    for name, _ in inspect.getmembers(MlflowClient):
        if not name.startswith("_") and name not in calls:
            calls[name] = outcome(client, name)
    print(json.dumps({"calls": calls, "exchange": exchange}))


main()
