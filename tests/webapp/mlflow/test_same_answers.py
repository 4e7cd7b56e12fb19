"""One program with MLflow's clients of both generations: Troupe answers as the MLflow server of the same version does."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.webapp.mlflow.test_real_client import output
from tests.workers.gateway.environments import client_python
from webapp.stack.servers import free_ports

PROGRAM = Path(__file__).with_name("compared_program.py")
pytestmark = pytest.mark.extended
DEFAULT = "a project has the experiment Default once a client has used it"
LISTS = "IN works for tags and parameters, too"
LIMIT = "a run of Troupe has a name of 120 characters, and parameters of any length"
REGISTRY = "Troupe has no model registry"
INTENDED = {
    "experiments, name != 'renamed'": DEFAULT,
    "experiments by name": DEFAULT,
    "new name of a deleted experiment": "an MLflow server fails with INTERNAL_ERROR",
    "infinity": "infinities are stored as they are; MLflow's store has the largest number in their place",
    "longer parameter": LIMIT,
    "long name": LIMIT,
    "runs, tags.`t.u` IN ('a', 'c')": LISTS,
    "model's registration": REGISTRY,
    "model: metric of an unknown model": "the error names what is unknown",
    "models on [{'dataset_name': 'd'}]": "MLflow's store compares the missing digest with null, and finds nothing",
}
"""Step -> why its answers differ."""


@pytest.fixture(params=["mlflow", "mlflow-2"])
def python(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with MLflow."""
    return client_python(request.param, tmp_path_factory)


@pytest.fixture
def reference(python: Path, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a program that logs into an MLflow server."""
    address = f"http://127.0.0.1:{free_ports(1)[0]}"
    store, files = f"sqlite:///{tmp_path}/runs.db", str(tmp_path / "files")
    options = ["--backend-store-uri", store, "--artifacts-destination", files, "--host", "127.0.0.1"]
    options += ["--port", address.rpartition(":")[2], "--workers", "1"]
    command = [str(python), "-m", "mlflow", "server", *options]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(
            command, env=environment | quiet, stdout=log, stderr=log, cwd=tmp_path, start_new_session=True
        )
    try:
        _answers(address, server, tmp_path / "log")
        yield environment | {"MLFLOW_TRACKING_URI": address}
    finally:
        os.killpg(server.pid, 15)
        server.wait(60)


def _answers(address: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait for the server."""
    for _ in range(600):
        assert server.poll() is None, log.read_text()[-4000:]
        try:
            with urlopen(f"{address}/health", timeout=5) as response:
                if response.status == 200:
                    return
        except (URLError, OSError):
            time.sleep(0.5)
    pytest.fail(log.read_text()[-4000:])


def test_answers_are_those_of_an_mlflow_server(
    python: Path, reference: dict[str, str], tracking: dict[str, str], tmp_path: Path
) -> None:
    answers: list[dict[str, Any]] = []
    for name, environment in (("troupe", tracking), ("mlflow", reference)):
        file = tmp_path / f"{name}.json"
        # An MLflow server answers some wrong requests with 500, which its client repeats for minutes.
        output(
            python,
            [str(PROGRAM)],
            environment | {"ANSWERS": str(file), "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"},
        )
        answers.append(json.loads(file.read_text()))
    ours, theirs = answers
    assert list(ours) == list(theirs)
    differences = {name: (ours[name], theirs[name]) for name in ours if ours[name] != theirs[name]}
    assert differences.keys() == INTENDED.keys() & ours.keys(), differences
