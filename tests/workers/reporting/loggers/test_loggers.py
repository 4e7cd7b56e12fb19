"""A run's metrics and histograms in TensorBoard, W&B and JSON Lines, read with the reader of each format; MARLKit's make_logger."""

import importlib
import json
import logging
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.workers.running import events, little_model, small_config, small_networks
from training_core.config.evaluation import Reporting
from training_core.errors import ConfigError
from training_core.loggers import registry
from training_core.loggers.registry import Loggers, LoggerSetup, make_logger
from training_core.marl.trainer import MarlTrainer
from workers.driver.attempt import run_attempt
from workers.protocol import Attempt


def scalars_of(file: Path) -> list[tuple[float, int, dict[str, float]]]:
    """(time, step, values by tag) of the events of a file that have scalars."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.util.tensor_util import make_ndarray

    events = [
        (event.wall_time, event.step, {value.tag: value for value in event.summary.value})
        for event in EventFileLoader(str(file)).Load()
    ]
    return [
        (time, step, {tag: float(make_ndarray(value.tensor).item()) for tag, value in scalars.items()})
        for time, step, values in events
        if (scalars := {t: v for t, v in values.items() if v.metadata.plugin_data.plugin_name == "scalars"})
    ]


def test_histograms_of_weights_and_gradients_are_written(tmp_path: Path) -> None:
    asked = {"reporting__jsonl": True, "reporting__histograms": True, "run__iterations": 2}
    config = small_networks("spread_mappo", **asked)
    assert run_attempt(Attempt(config, "r", 1, tmp_path / "run", tmp_path), local=True) == 0
    told = {
        (str(line["histogram"]), line["step"]): torch.tensor(line["numbers"])
        for line in lines(tmp_path / "run")
        if str(line.get("histogram", "")).startswith("policy/agents/")
    }
    networks = MarlTrainer(config).learners["agents"]
    names = {
        f"policy/agents/{network}/{kind}/{layer}"
        for network, module in (("actor", networks.actor), ("critic", networks.critic))
        for kind in ("weights", "gradients")
        for layer, _ in module.named_parameters()
    }
    assert set(told) == {(name, step) for name in names for step in (1, 2)}
    folder = tmp_path / "run" / "checkpoints" / "iteration-000002" / "agents"
    saved = load_file(next(path for path in folder.glob("*.safetensors") if "actor" in path.name))
    compared = 0
    for key, tensor in saved.items():
        name = next((layer for layer, _ in networks.actor.named_parameters() if key.endswith(layer)), "")
        numbers = told.get((f"policy/agents/actor/weights/{name}", 2))
        if numbers is None:
            continue
        compared += 1
        ordered = tensor.flatten().float().sort().values
        assert len(numbers) == min(len(ordered), 500)
        assert numbers[0] == ordered[0] and numbers[-1] == ordered[-1]
        assert numbers.median() == pytest.approx(float(ordered.median()), abs=0.01)
    assert compared == len(list(networks.actor.named_parameters()))
    small = [told[name, 2] for name in names if "/actor/gradients/" in name and name.endswith("bias")]
    norm = float(torch.cat(small).norm())
    assert 0 < norm <= config.policies["agents"].learner.max_grad_norm + 1e-6, "as a step applied them"


def test_without_histograms_none_are_made(tmp_path: Path) -> None:
    config = small_networks("spread_mappo", reporting__jsonl=True, run__iterations=1)
    assert run_attempt(Attempt(config, "r", 1, tmp_path / "run", tmp_path), local=True) == 0
    assert not [line for line in lines(tmp_path / "run") if "histogram" in line]


@pytest.mark.extended
@pytest.mark.parametrize("kind", ["wandb", "tensorboard", "jsonl", "none"])
def test_marlkits_example_of_a_logger_runs(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    logger = make_logger(kind, project="marlkit", run_name="run-1", config={"seed": 3})
    logger.log_config({"algo": "mappo"})
    logger.log_scalar("eval_return", -45.25, 10)
    logger.log_scalars({"EV": 0.5, "KL": 0.25}, 20)
    logger.log_histogram("weights", [1.0, 2.0, 4.0], 20)
    logger.close()
    if kind == "wandb":
        importlib.import_module("wandb").teardown()  # its process has written all when it is gone
    runs = tmp_path / "runs"
    if kind == "jsonl":
        first, scalar, both, histogram = lines(runs)
        assert (first["project"], first["name"], first["config"]) == (
            "marlkit",
            "run-1",
            {"seed": 3, "algo": "mappo"},
        )
        assert (scalar["step"], scalar["values"]) == (10, {"eval_return": -45.25})
        assert both["values"] == {"EV": 0.5, "KL": 0.25} and histogram["numbers"] == [1.0, 2.0, 4.0]
    elif kind == "tensorboard":
        (file,) = (runs / "tensorboard" / "marlkit" / "run-1").glob("*tfevents*")
        assert [(step, values) for _, step, values in scalars_of(file)] == [
            (10, {"eval_return": -45.25}),
            (20, {"EV": 0.5, "KL": 0.25}),
        ]
    elif kind == "wandb":
        (file,) = runs.glob("wandb/offline-run-*/*.wandb")
        assert b"eval_return" in file.read_bytes() and b"histogram" in file.read_bytes()
    else:
        assert not runs.exists()


def test_an_unknown_logger_and_a_late_config_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="use none, jsonl, tensorboard, wandb"):
        make_logger("mlflow")
    logger = make_logger("jsonl", folder=tmp_path)
    logger.log_scalar("x", 1.0, 1)
    with pytest.raises(ConfigError, match="log_config must precede the first number"):
        logger.log_config({})
    logger.close()


def opening(folder: Path) -> LoggerSetup:
    config = {"run": {"seed": 3}, "algorithm": {"type": "mappo"}}
    return LoggerSetup(folder, "lab", "abc", "mappo_toy_s3", config)


def feed(loggers: Loggers) -> None:
    """Three steps, one of which comes again, and a histogram."""
    loggers.scalars(1, {"eval/return": 0.5, "time/rollout": 2.0})
    loggers.scalars(2, {"eval/return": 0.75})
    loggers.histogram(2, "train/returns", [1.0, 1.0, 4.0])
    loggers.histogram(2, "train/none", [])
    loggers.scalars(1, {"late": 9.0})
    loggers.close()


def lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_jsonl(tmp_path: Path) -> None:
    feed(Loggers(["jsonl"], opening(tmp_path)))
    first, *rest = lines(tmp_path)
    assert first == {
        "project": "lab",
        "run": "abc",
        "name": "mappo_toy_s3",
        "config": {"run": {"seed": 3}, "algorithm": {"type": "mappo"}},
    }
    assert [(line["step"], line.get("values")) for line in rest] == [
        (1, {"eval/return": 0.5, "time/rollout": 2.0}),
        (2, {"eval/return": 0.75}),
        (2, None),
        (1, {"late": 9.0}),
    ]
    assert (rest[2]["histogram"], rest[2]["numbers"]) == ("train/returns", [1.0, 1.0, 4.0])


def test_tensorboard(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    feed(Loggers(["tensorboard"], opening(tmp_path)))
    folder = tmp_path / "tensorboard" / "lab" / "mappo_toy_s3"
    (file,) = folder.glob("*tfevents*")
    found = [(step, values) for _, step, values in scalars_of(file)]
    assert found == [
        (1, {"eval/return": 0.5, "time/rollout": 2.0}),
        (2, {"eval/return": 0.75}),
        (1, {"late": 9.0}),
    ]
    read = EventAccumulator(str(folder)).Reload()
    (histogram,) = read.Histograms("train/returns")
    value = histogram.histogram_value
    assert (histogram.step, value.num, value.min, value.max, value.sum) == (2, 3.0, 1.0, 4.0, 6.0)
    assert value.sum_squares == 18.0 and sum(value.bucket) == 3.0
    (config,) = read.Tensors("config")
    assert '"seed": 3' in config.tensor_proto.string_val[0].decode()


def test_a_name_with_slashes_stays_within_the_folder(tmp_path: Path) -> None:
    made = LoggerSetup(tmp_path / "run", "lab", "abc", "../../elsewhere", {})
    Loggers(["tensorboard"], made).close()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def records(data: bytes) -> Iterator[bytes]:
    """Of a .wandb file: LevelDB's log format, blocks of 32 KiB of (crc 4, length 2, kind 1, data), behind 7 bytes of its own."""
    place, part = 7, b""
    while place + 7 <= len(data):
        if 32768 - place % 32768 < 7:
            place += 32768 - place % 32768
            continue
        _, length, kind = struct.unpack("<IHB", data[place : place + 7])
        part += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield part
            part = b""


def test_weights_and_biases_offline(tmp_path: Path) -> None:
    import wandb

    feed(Loggers(["wandb"], opening(tmp_path)))
    wandb.teardown()  # its process has written all when it is gone
    (file,) = tmp_path.glob("wandb/offline-run-*/run-abc.wandb")
    from wandb.proto import wandb_internal_pb2

    seen: dict[str, list[str]] = {}
    for data in records(file.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "run":
            assert (record.run.project, record.run.display_name) == ("lab", "mappo_toy_s3")
            assert {"run", "algorithm"} <= {item.key for item in record.run.config.update}
        for item in record.history.item:
            seen.setdefault(item.key or "/".join(item.nested_key), []).append(item.value_json)
    assert wandb.run is None, "the run was finished"
    threads = [thread.name for thread in threading.enumerate()]
    assert not [name for name in threads if "Otel" in name], "it would call home"
    assert seen["iteration"] == ["1", "2", "2", "1"]
    assert seen["eval/return"] == ["0.5", "0.75"]
    assert seen["late"] == ["9"]
    assert "train/returns/bins" in seen


def test_two_runs_of_one_process_are_two_runs_of_weights_and_biases(tmp_path: Path) -> None:
    import wandb

    setups = [
        replace(opening(tmp_path / name), run=name, fields={"wandb_mode": "offline"})
        for name in ("one", "two")
    ]
    both = [Loggers(["wandb"], setup) for setup in setups]
    for value, loggers in enumerate(both):
        loggers.scalars(1, {"value": float(value)})
    for loggers in both:
        loggers.close()
    wandb.teardown()
    assert [
        len(list(tmp_path.glob(f"{name}/wandb/offline-run-*/run-{name}.wandb"))) for name in ("one", "two")
    ] == [1, 1]


def test_a_missing_package_is_reported_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda name: None)
    assert registry.enabled_loggers(Reporting(jsonl=True)) == ("jsonl",)
    with pytest.raises(ConfigError, match=r"troupe\[wandb\]"):
        registry.enabled_loggers(Reporting(wandb=True))


def test_every_logger_has_its_field() -> None:
    assert all(Reporting.model_fields[name].annotation is bool for name in registry.LOGGERS)
    assert registry.enabled_loggers(Reporting()) == ()


class Broken:
    """A logger whose disk is full."""

    def __init__(self, opening: LoggerSetup) -> None:
        pass

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        raise OSError("no space left")

    def histogram(self, step: int, name: str, numbers: Sequence[float]) -> None:
        raise AssertionError("what failed is asked nothing more")

    def close(self) -> None:
        raise AssertionError("what failed is asked nothing more")


def test_a_failing_logger_is_reported_once_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("training_core.loggers.tensorboard.TensorBoard", Broken)
    with caplog.at_level(logging.WARNING):
        feed(Loggers(["tensorboard", "jsonl"], opening(tmp_path)))
    (record,) = caplog.records
    assert (
        record.getMessage()
        == "reporting.tensorboard is disabled for the rest of this attempt: OSError: no space left"
    )
    assert len(lines(tmp_path)) == 5


@pytest.mark.extended
def test_a_run_writes_what_it_reports(tmp_path: Path) -> None:
    """The same numbers, in the same order, as its own events; histograms beside them."""
    asked = {"reporting__jsonl": True, "reporting__tensorboard": True, "reporting__histograms": True}
    config = small_config(little_model(tmp_path / "model"), **asked)
    attempt = Attempt(config=config, run="own", number=1, folder=tmp_path / "run", home=tmp_path)
    assert run_attempt(attempt, local=True) == 0
    reported = [(event["step"], event["values"]) for event in events(attempt.folder, "metrics")]
    first, *rest = lines(attempt.folder)
    assert first["name"] == "at_grpo_plan_path_s0" or first["name"] == config.run.name
    assert [(line["step"], line["values"]) for line in rest if "values" in line] == reported
    histograms = [line for line in rest if line.get("histogram") == "train/returns"]
    assert [line["step"] for line in histograms] == [1, 2]
    (file,) = (attempt.folder / "tensorboard" / "troupe").glob("*/*tfevents*")
    assert [step for _, step, _ in scalars_of(file)] == [step for step, _ in reported]
