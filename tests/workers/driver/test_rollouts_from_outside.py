"""A run on Ray learns from rollouts of another process: they end with it, and it takes a stop while it waits for them."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.source import ROOT
from tests.workers.rollout_buffer.serving import Service
from tests.workers.running import curve, events, stopped_when
from training_core.config.files import parse_config
from training_core.config.run import RunConfig
from workers.driver.attempt import run_attempt
from workers.protocol import Attempt

pytestmark = [pytest.mark.ray, pytest.mark.extended]
PLUGINS = ROOT / "tests" / "workers" / "rollout_buffer" / "plugins"
TOKEN = "TROUPE_BUFFER_TOKEN_OF_TESTS"
SIZE = 8
"""The service's own."""
PATIENCE = 300.0
"""Seconds; nothing is asserted on them."""


def processes() -> str:
    """The command lines of all processes."""
    return subprocess.run(["ps", "-eo", "args="], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def service(ray_cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    home = tmp_path / "home"
    (home / "data").mkdir(parents=True)
    lines = [
        {"instance_id": f"i{place}", "prompt": f"goal {place + 1} east", "label": f"w{place}"}
        for place in range(2)
    ]
    (home / "data" / "prompts.jsonl").write_text("\n".join(map(json.dumps, lines)))
    shutil.copytree(PLUGINS, home / "plugins")  # distinguishes its processes from those of other tests
    monkeypatch.setenv("TROUPE_BUFFER_TOKEN", os.environ[TOKEN])
    running = Service(home, "--generators", str(home / "plugins")).start()
    yield running
    running.stop()


def config(model: Path, service: Service, **workflow: Any) -> RunConfig:
    """If nothing is ready, the run polls again only after an hour."""
    outside = {"type": "rollout_buffer", "url": service.url, "token_env": TOKEN, "retry_interval": 3600.0}
    return parse_config(
        {
            "run": {"iterations": 2},
            "team": {"roles": {"agent": {"policy": "agent", "sampling": {"max_tokens": 2}}}},
            "policies": {"agent": {"model": str(model)}},
            "environment": {"type": "external"},
            "workflow": outside | workflow,
            "algorithm": {"type": "at_grpo"},
            "rollout": {"tasks": 2, "group_size": SIZE},
            "resources": {"environment_workers": 1},
            "evaluation": {"every": 0},
            "checkpoint": {"every": 0},
        }
    )


def test_a_generator_ends_with_the_run_that_started_it(
    service: Service, little_model: Path, tmp_path: Path
) -> None:
    """It has prompts for many more epochs, with which the service would continue."""
    told = config(
        little_model, service, generator="guess", input_file="prompts.jsonl", epochs=10_000, processes=2, poll_interval=0.05
    )  # fmt: skip
    folder = tmp_path / "run"
    assert run_attempt(Attempt(told, "outside", 1, folder, tmp_path), local=False) == 0
    assert curve(folder)["buffer/groups_finished", 2] >= 4
    with service.client() as client:
        assert client.get("/stats").json()["data"]["rollout"]["state"] == "none"
    deadline = time.monotonic() + PATIENCE
    while f"rollout_buffer.play {service.home}" in processes():
        assert time.monotonic() < deadline, processes()
        time.sleep(0.1)


def test_a_run_that_waits_for_external_rollouts_can_be_stopped(
    service: Service, little_model: Path, tmp_path: Path
) -> None:
    """After an iteration no more records are written: instead of waiting indefinitely the run stops, with a checkpoint."""
    with service.client() as client:
        for number in range(2 * SIZE):
            said = [{"role": "user", "content": "stuck"}, {"role": "assistant", "content": "east"}]
            record = {"uid": f"{number}", "instance_id": f"i{number % 2}", "messages": said, "extra_info": {}}
            client.post("/buffer/write", json=record | {"reward": number % 3}).raise_for_status()
    folder = tmp_path / "run"
    told = config(little_model, service, poll_interval=3600.0)
    with stopped_when(folder, completed=1):
        assert run_attempt(Attempt(told, "waits", 1, folder, tmp_path), local=False) == 0
    last = events(folder, "status")[-1]
    assert (last["state"], last["iteration"]) == ("stopped", 1)
    assert (folder / "checkpoints" / "iteration-000001" / "rollout_buffer.json").is_file()
