"""`troupe checkpoint push` with the hub's real client, in a process of its own, against a stand-in of the hub's API."""

import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.troupe_client.cli.test_checkpoint_commands import checkpoint
from training_core.config.files import load_config
from webapp.checkpoints.models import Checkpoint
from webapp.runs.models import Run

__all__ = ["checkpoint"]
TOKEN = "hf_secret"


class Hub:
    """Repositories, and the files of their last commit."""

    def __init__(self) -> None:
        self.created: list[dict[str, Any]] = []
        self.files: dict[str, dict[str, bytes]] = {}
        self.messages: list[str] = []

    def answer(self, path: str, token: str, body: bytes) -> tuple[int, dict[str, Any]]:
        if token != f"Bearer {TOKEN}":
            return 401, {"error": "Invalid username or password."}
        if path == "/api/repos/create":
            self.created.append(json.loads(body))
            return 200, {
                "url": f"http://127.0.0.1/{self.created[-1]['organization']}/{self.created[-1]['name']}"
            }
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        _, _, _, owner, name, act, *_ = path.split("/")
        if act == "preupload":
            asked = json.loads(body)["files"]
            return 200, {"files": [file | {"uploadMode": "regular", "shouldIgnore": False} for file in asked]}
        lines = [json.loads(line) for line in body.splitlines()]
        self.messages += [line["value"]["summary"] for line in lines if line["key"] == "header"]
        self.files[f"{owner}/{name}"] = {
            line["value"]["path"]: base64.b64decode(line["value"]["content"])
            for line in lines
            if line["key"] == "file"
        }
        return 200, {
            "commitUrl": f"http://127.0.0.1/{owner}/{name}/commit/1",
            "commitOid": "1",
            "success": True,
        }


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    made = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, data = made.answer(self.path, self.headers.get("Authorization", ""), body)
            content = json.dumps(data).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    yield made
    server.shutdown()
    server.server_close()


def push(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "troupe_client.cli.app", "checkpoint", "push", *words]
    return subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))


def add_policy(folder: Path, name: str) -> None:
    (folder / name).mkdir()
    (folder / name / "config.json").write_text("{}")


def test_a_policy_becomes_a_repository_with_its_card(
    connected: str, run: Run, checkpoint: Checkpoint, hub: Hub
) -> None:
    run.config["policies"]["planner"]["model"] = "acme/base-1B"
    run.save()
    result = push(run.pk, "last", "ada/team", "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == [f"{os.environ['HF_ENDPOINT']}/ada/team"]
    assert [(one["organization"], one["name"], one["visibility"]) for one in hub.created] == [
        ("ada", "team", "private")
    ]
    files = hub.files["ada/team"]
    assert (
        sorted(files) == ["README.md", "config.json", "model.safetensors"]
        and files["model.safetensors"] == b"weights"
    )
    _, head, text = files["README.md"].decode().split("---\n", 2)
    assert yaml.safe_load(head) == {
        "library_name": "transformers", "pipeline_tag": "text-generation", "tags": ["troupe", "reinforcement-learning"],
        "base_model": "acme/base-1B", "base_model_relation": "finetune",
    }  # fmt: skip
    assert run.pk in text and '"iteration": 20' in text
    assert hub.messages == [f"Checkpoint last of run {run.pk}"]


def test_several_policies_have_a_repository_each(
    connected: str, run: Run, checkpoint: Checkpoint, hub: Hub, tmp_path: Path
) -> None:
    add_policy(tmp_path / "runs" / run.pk / checkpoint.path, "executor")
    result = push(run.pk, "20", "ada/team", "--public")
    assert result.returncode == 0, result.stderr
    assert sorted(hub.files) == ["ada/team-executor", "ada/team-planner"]
    assert {one["visibility"] for one in hub.created} == {"public"}


def test_small_networks_are_refused(
    connected: str, run: Run, checkpoint: Checkpoint, hub: Hub, tmp_path: Path
) -> None:
    """Their folder alone, without the config of the run, loads nowhere."""
    run.config = load_config("spread_toy").model_dump(mode="json")
    run.save()
    folder = tmp_path / "runs" / run.pk / checkpoint.path / "planner"
    (folder / "config.json").rename(folder / "actor.safetensors")
    result = push(run.pk, "last", "ada/team")
    assert result.returncode == 1 and "checkpoint download" in result.stderr and not hub.created


@pytest.mark.parametrize(("name", "value"), [("HF_TOKEN", "hf_other"), ("HF_ENDPOINT", "http://127.0.0.1:1")])
def test_a_failure_names_the_token(
    connected: str,
    run: Run,
    checkpoint: Checkpoint,
    hub: Hub,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
) -> None:
    monkeypatch.setenv(name, value)
    result = push(run.pk, "last", "ada/team")
    assert result.returncode == 1 and "HF_TOKEN" in result.stderr and "hf_" not in result.stderr
    assert "Traceback" not in result.stderr and not hub.files
