"""MLflow's own client, in an environment of its own: every public call, and scripts that log by it."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.webapp.mlflow import training_programs
from tests.webapp.mlflow.test_replay import EXCHANGE, normalised
from tests.workers.gateway.environments import client_python
from webapp.metrics.models import Series
from webapp.runs.models import Run

PROGRAM = Path(__file__).with_name("client_program.py")
pytestmark = pytest.mark.extended


def output(python: Path, program: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run([python, *program], env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_every_call_works_or_is_refused_by_name(
    tracking: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    printed = output(client_python("mlflow", tmp_path_factory), [str(PROGRAM)], tracking)
    result = json.loads(printed.splitlines()[-1])
    calls = result["calls"]
    refused = {name: text for name, text in calls.items() if text.startswith("refused")}
    assert {name for name, text in calls.items() if text == "works"} >= {
        "log_batch",
        "search_runs",
        "log_artifact",
    }
    assert len(refused) > 40 and all("no model registry" in text for text in refused.values())
    assert {"create_registered_model", "set_trace_tag"} <= set(refused)
    run = Run.objects.get(name="calm-bee", archived=False)
    assert (run.state, run.iteration) == ("finished", 2)
    if os.environ.get("TROUPE_RECORD"):
        EXCHANGE.write_text(json.dumps(normalised(result["exchange"]), indent=1) + "\n")


@pytest.mark.parametrize(
    ("program", "name", "metrics", "steps"),
    [
        ("TRANSFORMERS", "tiny bert", {"loss", "eval_loss", "learning_rate"}, 6),
        ("STABLE_BASELINES", "cartpole", {"rollout/ep_rew_mean", "time/fps"}, 192),
        ("LIGHTNING", "fit", {"train/loss"}, 4),
        ("LIGHTNING_AUTOLOG", "fit by autolog", {"train_loss"}, 5),
    ],
)
def test_unmodified_scripts_log_into_troupe(
    tracking: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
    program: str,
    name: str,
    metrics: set[str],
    steps: int,
) -> None:
    python = client_python("mlflow-trainers", tmp_path_factory)
    folder = str(tmp_path_factory.mktemp("trainer"))
    preface = f"FOLDER, URI = {folder!r}, {tracking['MLFLOW_TRACKING_URI']!r}"
    output(python, ["-c", preface + getattr(training_programs, program)], tracking)
    run = Run.objects.get()
    assert (run.name, run.state, run.iteration) == (name, "finished", steps)
    assert run.config["client"]["learning_rate" if "lr" not in run.config["client"] else "lr"] in (
        1e-3,
        3e-4,
        0.1,
    )
    assert set(Series.objects.filter(run=run).values_list("key", flat=True)) >= metrics
