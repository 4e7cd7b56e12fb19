"""MARLKit's make_logger in a script, with each backend."""

import importlib
from pathlib import Path

import pytest

from tests.workers.reporting.loggers.test_loggers import lines
from training_core.errors import ConfigError
from training_core.loggers.registry import make_logger
from troupe_client.reporting.tensorboard import scalars_of


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
