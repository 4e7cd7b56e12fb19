"""Uses MLflow as programs do, against MLFLOW_TRACKING_URI, in an environment with mlflow of any version from 2.22 on.

Writes JSON into the file ANSWERS: name of a step -> its answer, or the code of the error. Ids are replaced by names, and times that the
server chooses are left out, so that two servers can be compared.
"""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag, ViewType
from mlflow.exceptions import MlflowException
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

ANSWERS: dict[str, Any] = {}
IDS: dict[str, str] = {}
"""Id -> the name that replaces it."""
CHOSEN = (
    "creation_time",
    "last_update_time",
    "creation_timestamp",
    "last_updated_timestamp",
    "artifact_location",
)
"""Fields that the server chooses."""
BEGUN = 1_700_000_000_000
client = MlflowClient()


def named(identity: str, name: str) -> str:
    """Return the id; answers have the name in its place."""
    IDS[identity] = f"<{name}>"
    return identity


def plain(value: Any) -> Any:
    """Return what JSON can hold, without ids and times of the server."""
    if isinstance(value, dict):
        found = {str(key): plain(item) for key, item in sorted(value.items()) if key not in CHOSEN}
        return found | {key: IDS.get(item, item) for key, item in value.items() if key == "experiment_id"}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    if isinstance(value, str):
        for identity, name in IDS.items():
            if len(identity) > 6:  # ids of experiments are short numbers, which other texts contain
                value = value.replace(identity, name)
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def step(name: str, call: Callable[[], Any]) -> None:
    """Record the answer of a call."""
    try:
        ANSWERS[name] = plain(call())
    except MlflowException as error:
        ANSWERS[name] = f"refused: {error.error_code}"
    except Exception as error:
        ANSWERS[name] = f"failed: {type(error).__name__}"


def described(run_id: str) -> dict[str, Any]:
    """What a run has, beside the tags of the machine."""
    run = client.get_run(run_id)
    info = {
        key: getattr(run.info, key)
        for key in (
            "run_id",
            "experiment_id",
            "run_name",
            "status",
            "start_time",
            "end_time",
            "lifecycle_stage",
        )
    }
    tags = {
        key: value
        for key, value in run.data.tags.items()
        if not key.startswith("mlflow.source") and key != "mlflow.user"
    }
    inputs = [
        (item.dataset.name, item.dataset.digest, [(tag.key, tag.value) for tag in item.tags])
        for item in run.inputs.dataset_inputs
    ]
    return info | {"metrics": run.data.metrics, "params": run.data.params, "tags": tags, "inputs": inputs}


def points(run_id: str, key: str) -> list[Any]:
    """The points of a metric in an order that does not depend on the server."""
    return sorted((p.step, p.timestamp, str(p.value)) for p in client.get_metric_history(run_id, key))


def listed(run_id: str, folder: str | None = None) -> list[Any]:
    """Files and folders of a run."""
    return sorted((file.path, file.is_dir, file.file_size) for file in client.list_artifacts(run_id, folder))


def experiments() -> str:
    """Experiments: names, tags, views, errors."""
    first = named(client.create_experiment("tuning", tags={"team": "red"}), "tuning")
    step("experiment", lambda: dict(client.get_experiment(first)))
    step("experiment by name", lambda: dict(client.get_experiment_by_name("tuning")))
    step("experiment twice", lambda: client.create_experiment("tuning"))
    step("experiment without a name", lambda: client.create_experiment(""))
    step("experiment that is unknown", lambda: client.get_experiment("987654"))
    step("experiment that is unknown by name", lambda: client.get_experiment_by_name("none"))
    other = named(client.create_experiment("other"), "other")
    client.set_experiment_tag(other, "kind", "rl")
    client.rename_experiment(other, "renamed")
    for text in (
        "name LIKE 'ren%'",
        "name ILIKE 'REN%'",
        "tags.kind = 'rl'",
        "name != 'renamed'",
        "name = 'x' OR name = 'y'",
    ):
        step(
            f"experiments, {text}",
            lambda text=text: [e.name for e in client.search_experiments(filter_string=text)],
        )
    step("experiments by name", lambda: [e.name for e in client.search_experiments(order_by=["name DESC"])])
    client.delete_experiment(other)
    step("deleted experiment", lambda: dict(client.get_experiment(other)))
    step(
        "deleted experiments",
        lambda: [e.name for e in client.search_experiments(view_type=ViewType.DELETED_ONLY)],
    )
    step("run in a deleted experiment", lambda: client.create_run(other))
    step("new name of a deleted experiment", lambda: client.rename_experiment(other, "x"))
    step("tag of a deleted experiment", lambda: client.set_experiment_tag(other, "a", "b"))
    step("name of a deleted experiment", lambda: client.create_experiment("renamed"))
    client.restore_experiment(other)
    step("restored experiment", lambda: dict(client.get_experiment(other)))
    return first


def values(experiment: str) -> str:
    """Metrics, parameters and tags: which of them is the last one, and what is refused."""
    run = client.create_run(experiment, start_time=1, run_name="bold-ant", tags={"team": "red"})
    run_id = named(run.info.run_id, "run")
    step("run", lambda: described(run_id))
    for value, moment in (
        (2.0, 2000),
        (1.0, 1000),
    ):  # the older value arrives last, as with asynchronous logging
        client.log_metric(run_id, "late", value, timestamp=BEGUN + moment, step=5)
    for value, at in ((3.0, 3), (1.0, 1), (2.0, -2)):
        client.log_metric(run_id, "steps", value, timestamp=BEGUN, step=at)
    client.log_metric(run_id, "nothing", float("nan"), timestamp=BEGUN, step=0)
    other = client.create_run(experiment, start_time=2, run_name="limits").info.run_id
    client.log_metric(other, "infinite", float("inf"), timestamp=BEGUN, step=0)
    step("infinity", lambda: [client.get_run(other).data.metrics, points(other, "infinite")])
    for _ in range(2):
        client.log_metric(run_id, "twice", 0.5, timestamp=BEGUN, step=0)
    metrics = [Metric("loss", 1 / (at + 1), BEGUN + at, at) for at in range(5)]
    client.log_batch(run_id, metrics, [Param("lr", "0.1"), Param("a/b c", "x")], [RunTag("note", "n")])
    step("values", lambda: described(run_id))
    for key in ("late", "steps", "nothing", "twice", "loss", "unknown"):
        step(f"points of {key}", lambda key=key: points(run_id, key))
    step("parameter again", lambda: client.log_param(run_id, "lr", "0.1"))
    step("parameter changed", lambda: client.log_param(run_id, "lr", "0.2"))
    batch = lambda *params: client.log_batch(run_id, params=[Param(*pair) for pair in params])  # noqa: E731
    step("batch with a changed parameter", lambda: batch(("lr", "0.3"), ("fresh", "1")))
    step("batch with a parameter twice", lambda: batch(("m", "1"), ("m", "2")))
    step("batch with an equal parameter twice", lambda: batch(("n", "1"), ("n", "1")))
    step("long parameter", lambda: client.log_param(run_id, "long", "x" * 6000))
    step(
        "longer parameter",
        lambda: [client.log_param(other, "p", "x" * 7000), len(client.get_run(other).data.params["p"])],
    )
    step("parameter without a name", lambda: client.log_param(run_id, "", "x"))
    step("metric without a name", lambda: client.log_metric(run_id, "", 1))
    step("tag without a name", lambda: client.set_tag(run_id, "", "x"))
    step("metric with a comma", lambda: client.log_metric(run_id, "a,b", 1))
    step("long name of a metric", lambda: client.log_metric(run_id, "m" * 260, 1))
    step("metric with a text", lambda: client.log_metric(run_id, "text", "much"))
    step("tag deleted twice", lambda: [client.delete_tag(run_id, "note"), client.delete_tag(run_id, "note")])
    step(
        "tag again",
        lambda: [
            client.set_tag(run_id, "team", "blue"),
            client.set_tag(run_id, "mlflow.runName", "calm-bee"),
        ],
    )
    client.update_run(run_id, status="FAILED")
    step("failed", lambda: described(run_id)["status"])
    client.set_terminated(run_id, "FINISHED", end_time=BEGUN + 60_000)
    step("ended", lambda: described(run_id))
    step("unknown run", lambda: client.get_run("0" * 32))
    step("value of an unknown run", lambda: client.log_metric("0" * 32, "a", 1))
    return run_id


def shelved(experiment: str) -> None:
    """What a deleted run refuses."""
    run_id = named(client.create_run(experiment, start_time=3, run_name="gone").info.run_id, "gone")
    client.set_terminated(run_id, "KILLED", end_time=BEGUN)
    client.delete_run(run_id)
    step("deleted run", lambda: described(run_id))
    for name, call in {
        "value": lambda: client.log_metric(run_id, "a", 1), "parameter": lambda: client.log_param(run_id, "a", 1),
        "batch": lambda: client.log_batch(run_id, [Metric("a", 1, BEGUN, 0)]), "tag": lambda: client.set_tag(run_id, "a", "b"),
        "tag's end": lambda: client.delete_tag(run_id, "a"), "state": lambda: client.set_terminated(run_id),
        "name": lambda: client.update_run(run_id, name="b"), "data set": lambda: client.log_inputs(run_id, [dataset("d")]),
        "end": lambda: client.delete_run(run_id),
    }.items():  # fmt: skip
        step(f"deleted run: {name}", call)
    step(
        "deleted runs",
        lambda: [
            r.info.run_name for r in client.search_runs([experiment], run_view_type=ViewType.DELETED_ONLY)
        ],
    )
    client.restore_run(run_id)
    step("restored run", lambda: described(run_id))


def dataset(name: str, context: str = "train") -> DatasetInput:
    return DatasetInput(
        Dataset(name, f"digest-{name}", "local", f"{name}.jsonl"), [InputTag("mlflow.data.context", context)]
    )


def searches(experiment: str) -> None:
    """Filters, orders and pages."""
    made = {}
    for number, name in enumerate("abc"):
        run_id = client.create_run(experiment, start_time=BEGUN + number, run_name=name).info.run_id
        made[name] = named(run_id, f"searched {name}")
        client.log_batch(
            run_id,
            [Metric("acc", number / 4, BEGUN, 0)],
            [Param("size", f"{number}x%")],
            [RunTag("t.u", name)],
        )
    client.log_inputs(made["a"], [dataset("d1"), dataset("d2", "eval"), dataset("d1")])
    client.log_inputs(made["b"], [dataset("d2")])
    step("inputs", lambda: described(made["a"])["inputs"])
    for text in (
        "metrics.acc >= 0.25", "metrics.acc != 0.25", "metric.acc = 0", "params.size = '1x%'", "params.size LIKE '%x%'",
        "tags.`t.u` IN ('a', 'c')",
        "attributes.run_name != 'a'", "run_name ILIKE 'B'", "status = 'RUNNING' AND metrics.acc < 0.5", "start_time > 1700000000001",
        "datasets.name = 'd1'", "dataset.name LIKE 'd%'", "datasets.digest = 'digest-d2'", "datasets.context = 'eval'",
        "dataset.context ILIKE 'TR%'",
        "datasets.name != 'd1'", "datasets.name IN ('d1', 'd3')", "datasets.name = 'd2' AND dataset.context = 'train'",
        "datasets.source = 'x'", "datasets.name > 'a'", "metrics.acc = 'a'", "params.size > 1", "acc > 1", "metrics.acc", "",
    ):  # fmt: skip
        step(
            f"runs, {text}",
            lambda text=text: sorted(r.info.run_name for r in client.search_runs([experiment], text)),
        )
    for order in ("metrics.acc DESC", "params.size", "attributes.start_time ASC", "tags.`t.u` DESC"):
        step(
            f"runs by {order}",
            lambda order=order: [
                r.info.run_name
                for r in client.search_runs([experiment], "metrics.acc >= 0", order_by=[order])
            ],
        )
    step("pages", lambda: pages(experiment))
    step("no page", lambda: len(client.search_runs([experiment], max_results=-1)))
    step(
        "table",
        lambda: sorted(
            mlflow.search_runs([experiment], "metrics.acc >= 0", order_by=["start_time"])["metrics.acc"]
        ),
    )


def pages(experiment: str) -> list[list[str]]:
    """Names on each page. The server of MLflow 2.22 has an empty page after a last one that is full."""
    found, token = [], None
    while not found or token:
        page = client.search_runs(
            [experiment], order_by=["start_time", "run_id"], max_results=2, page_token=token
        )
        found.append([run.info.run_name for run in page])
        token = page.token
    return [page for page in found if page]


def files(experiment: str) -> None:
    """Every form in which files are stored, listed and read."""
    run_id = named(client.create_run(experiment, start_time=BEGUN, run_name="files").info.run_id, "files")
    step("no files", lambda: listed(run_id))
    client.log_text(run_id, "hello", "t/notes.txt")
    client.log_dict(run_id, {"a": [1, 2]}, "d.json")
    client.log_table(run_id, {"answer": ["yes", "no"]}, "table.json")
    client.log_image(run_id, np.zeros((4, 4, 3), dtype=np.uint8), "images/one.png")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "deep").mkdir()
        Path(folder, "deep", "x.bin").write_bytes(b"\0\1")
        client.log_artifacts(run_id, folder, "tree")
    for folder in (None, "t", "tree", "tree/deep", "t/notes.txt", "missing"):
        step(f"files in {folder}", lambda folder=folder: listed(run_id, folder))
    step("listed by function", lambda: sorted(f.path for f in mlflow.artifacts.list_artifacts(run_id=run_id)))
    step(
        "listed by address",
        lambda: sorted(f.path for f in mlflow.artifacts.list_artifacts(f"runs:/{run_id}/tree")),
    )
    uri = client.get_run(run_id).info.artifact_uri
    for name, read in {
        "client": lambda: client.download_artifacts(run_id, "t/notes.txt"),
        "function": lambda: mlflow.artifacts.download_artifacts(run_id=run_id, artifact_path="t/notes.txt"),
        "address": lambda: mlflow.artifacts.download_artifacts(f"runs:/{run_id}/t/notes.txt"),
        "artifact_uri": lambda: mlflow.artifacts.download_artifacts(f"{uri}/t/notes.txt"),
    }.items():
        step(f"downloaded by {name}", lambda read=read: Path(read()).read_text())
    step(
        "downloaded folder",
        lambda: below(mlflow.artifacts.download_artifacts(run_id=run_id, artifact_path="tree")),
    )
    step("downloaded run", lambda: below(client.download_artifacts(run_id, "")))
    step("text", lambda: mlflow.artifacts.load_text(f"runs:/{run_id}/t/notes.txt"))
    step("dict", lambda: mlflow.artifacts.load_dict(f"runs:/{run_id}/d.json"))
    step(
        "table of files",
        lambda: client.load_table(experiment, "table.json", run_ids=[run_id]).answer.tolist(),
    )
    step("missing file", lambda: client.download_artifacts(run_id, "none.txt"))


def below(folder: str) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file())


def sklearn_models(experiment: str) -> None:
    """`autolog` with its defaults, `log_model`, and reading models back."""
    features, labels = load_iris(return_X_y=True)
    mlflow.autolog()
    with mlflow.start_run(run_name="autolog") as run:
        model = LogisticRegression(max_iter=200).fit(features, labels)
    mlflow.autolog(disable=True)
    run_id = named(run.info.run_id, "autolog")
    step(
        "autolog",
        lambda: {
            key: value
            for key, value in described(run_id).items()
            if key not in ("start_time", "end_time", "tags")
        },
    )
    for key in ("training_score", "training_log_loss"):
        step(
            f"autolog: points of {key}", lambda key=key: [float(value) for _, _, value in points(run_id, key)]
        )
    step("autolog: files", lambda: [path for path, *_ in listed(run_id)])
    step("autolog: files of the model", lambda: sorted(path for path, *_ in listed(run_id, "model")))
    step("autolog: the model read back", lambda: loaded(f"runs:/{run_id}/model", model, features))
    with mlflow.start_run(run_name="log_model") as run:
        mlflow.log_metric("acc", 0.5)
        info = mlflow.sklearn.log_model(model, "first", pip_requirements=["scikit-learn"])
    run_id = named(run.info.run_id, "log_model")
    step("log_model: metrics", lambda: described(run_id)["metrics"])
    step("log_model: points", lambda: [value for _, _, value in points(run_id, "acc")])
    step("log_model: read back", lambda: loaded(info.model_uri, model, features))
    step(
        "log_model: as a function",
        lambda: mlflow.pyfunc.load_model(info.model_uri).predict(features[:3]).tolist(),
    )
    step(
        "log_model: downloaded",
        lambda: sorted(
            name
            for name in below(mlflow.artifacts.download_artifacts(info.model_uri))
            if "registered" not in name
        ),
    )
    step("model's registration", lambda: mlflow.register_model(info.model_uri, "registered").version)


def loaded(uri: str, model: Any, features: Any) -> bool:
    return bool((mlflow.sklearn.load_model(uri).predict(features) == model.predict(features)).all())


def logged_models(experiment: str) -> None:
    """Calls of clients from 3.0 on."""
    from mlflow.entities import LoggedModelInput, LoggedModelOutput

    run_id = named(client.create_run(experiment, start_time=BEGUN, run_name="models").info.run_id, "models")
    model = client.create_logged_model(
        experiment,
        name="net",
        source_run_id=run_id,
        tags={"a": "1"},
        params={"lr": "0.1"},
        model_type="agent",
    )
    model_id = named(model.model_id, "model")
    step("model", lambda: model.to_dictionary())
    step("model with a wrong name", lambda: client.create_logged_model(experiment, name="a/b"))
    step("model in an unknown experiment", lambda: client.create_logged_model("987654", name="x"))
    client.set_logged_model_tags(model_id, {"a": "2", "b": "3"})
    client.delete_logged_model_tag(model_id, "a")
    step("model: unknown tag", lambda: client.delete_logged_model_tag(model_id, "none"))
    client.log_model_params(model_id, {"size": "9"})
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "weights.txt").write_text("1 2 3")
        client.log_model_artifacts(model_id, folder)
    step("model: finalized", lambda: client.finalize_logged_model(model_id, "READY").to_dictionary())
    step(
        "model: files",
        lambda: [(f.path, f.is_dir, f.file_size) for f in client.list_logged_model_artifacts(model_id)],
    )
    step("model: files of its run", lambda: [listed(run_id), listed(run_id, "net")])
    step("model: downloaded", lambda: below(mlflow.artifacts.download_artifacts(f"models:/{model_id}")))
    client.log_outputs(run_id, [LoggedModelOutput(model_id, step=3)])
    client.log_inputs(run_id, models=[LoggedModelInput(model_id)])
    run = client.get_run(run_id)
    step("model: read by its run", lambda: [item.model_id for item in run.inputs.model_inputs])
    step("model: made by its run", lambda: [(item.model_id, item.step) for item in run.outputs.model_outputs])
    client.log_metric(run_id, "acc", 0.5, timestamp=BEGUN, step=1, model_id=model_id)
    client.log_metric(run_id, "acc", 0.5, timestamp=BEGUN, step=1, model_id=model_id)
    step("model: equal points", lambda: points(run_id, "acc"))
    metric = Metric(
        "acc", 0.75, BEGUN, 2, model_id=model_id, dataset_name="d", dataset_digest="1", run_id=run_id
    )
    client.log_batch(run_id, [metric, Metric("plain", 1, BEGUN, 2)])
    step("model: points of its run", lambda: [points(run_id, "acc"), points(run_id, "plain")])
    step(
        "model: metrics",
        lambda: sorted(str(plain(m.to_dictionary())) for m in client.get_logged_model(model_id).metrics),
    )
    step(
        "model: metric of an unknown model",
        lambda: client.log_metric(run_id, "acc", 1, timestamp=BEGUN, model_id="m-" + "0" * 32),
    )
    second = named(client.create_logged_model(experiment, name="other").model_id, "other model")
    step("model without a run", lambda: client.get_logged_model(second).to_dictionary())
    for text in (
        "name = 'net'",
        "params.lr = '0.1'",
        "tags.b = '3'",
        "metrics.acc > 0.7",
        "metrics.acc > 0.8",
        "model_type = 'agent'",
        "name LIKE '%e%'",
        "source_run_id = 'x'",
        "name = ",
    ):
        step(
            f"models, {text}",
            lambda text=text: sorted(
                m.name for m in client.search_logged_models([experiment], text) if m.name in ("net", "other")
            ),
        )
    for order in ([{"field_name": "metrics.acc", "ascending": False}], [{"field_name": "name"}]):
        step(
            f"models by {order}",
            lambda order=order: [
                m.name
                for m in client.search_logged_models([experiment], order_by=order)
                if m.name in ("net", "other")
            ],
        )
    for on in ([{"dataset_name": "d"}], [{"dataset_name": "none"}]):
        step(
            f"models on {on}",
            lambda on=on: [
                m.name for m in client.search_logged_models([experiment], "metrics.acc > 0", datasets=on)
            ],
        )
    client.delete_logged_model(second)
    step("deleted model", lambda: client.get_logged_model(second))
    step("models without it", lambda: len(client.search_logged_models([experiment], "name = 'other'")))
    step("unknown model", lambda: client.get_logged_model("m-" + "f" * 32))


def fluent(experiment: str) -> None:
    """What most scripts use."""
    with mlflow.start_run(run_name="x" * 200, tags={"k": "v"}) as run:
        mlflow.log_params({"a": 1, "b": None, "c": True, "d": [1, 2]})
        mlflow.log_metrics({"m": 1.5, "n": 2}, step=4)
        with mlflow.start_run(run_name="child", nested=True) as child:
            mlflow.log_metric("inner", 1)
        mlflow.set_tags({"z": 1})
        mlflow.log_metric("later", 3, synchronous=False).wait()
    for name, made in (("long name", run), ("child", child)):
        named(made.info.run_id, name)
    step(
        "long name",
        lambda: [
            client.get_run(run.info.run_id).info.run_name,
            client.get_run(run.info.run_id).data.tags["mlflow.runName"],
        ],
    )
    step(
        "fluent",
        lambda: {
            key: value
            for key, value in described(run.info.run_id).items()
            if key not in ("start_time", "end_time", "run_name", "tags")
        },
    )
    step("parent", lambda: client.get_parent_run(child.info.run_id).info.run_id)
    with mlflow.start_run(run_id=run.info.run_id):
        mlflow.log_metric("m", 2.5, step=5)
    step("continued", lambda: [described(run.info.run_id)["metrics"], described(run.info.run_id)["status"]])


def main() -> None:
    """Print the answers."""
    experiment = experiments()
    mlflow.set_experiment("tuning")
    values(experiment)
    shelved(experiment)
    searches(experiment)
    files(experiment)
    fluent(experiment)
    sklearn_models(experiment)
    if hasattr(client, "create_logged_model"):
        logged_models(experiment)
    Path(os.environ["ANSWERS"]).write_text(json.dumps(ANSWERS, indent=1))


main()
