"""The `troupe` command without a server, and with an address that is not a Troupe server."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from tests.troupe_client.cli.conftest import Troupe
from training_core.errors import ConfigError
from troupe_client import server_api
from troupe_client.cli import doctor, launching, show


@pytest.fixture
def stranger() -> Iterator[str]:
    """Address of a web server that is no Troupe."""

    class Greeter(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<h1>hello</h1>")

        def log_message(self, *args: object) -> None:
            """Quietly."""

    with HTTPServer(("127.0.0.1", 0), Greeter) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.mark.parametrize(
    ("local", "address", "message"),
    [
        (None, "", "troupe up"),
        (None, "", "TROUPE_URL"),
        ('{"url": "http://127.0.0.1:%d", "token": "t"}', "", "does not answer (ConnectError)"),
        ('{"url": ', "", "cannot be read"),
        (None, "STRANGER", "is it a Troupe server?"),
        (None, "localhost:8000", "use http://host:port"),
    ],
)
def test_a_server_that_cannot_be_asked_is_reported_with_the_remedy(
    local: str | None,
    address: str,
    message: str,
    troupe: Troupe,
    stranger: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if local:
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "local.json").write_text(local.replace("%d", str(closed_port())))
    if address:
        monkeypatch.setenv("TROUPE_URL", address.replace("STRANGER", stranger))
        monkeypatch.setenv("TROUPE_TOKEN", "t")
    result = troupe("runs")
    assert result.status == 1 and message in result.err


def test_the_data_folder_of_a_checkout_is_var(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TROUPE_HOME", raising=False)
    assert (server_api.ROOT / "manage.py").exists()
    assert server_api.home() == ROOT / "var"


def test_local_token_is_sent_to_local_server_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TROUPE_HOME", str(tmp_path))
    (tmp_path / "local.json").write_text(json.dumps({"url": "http://127.0.0.1:8000", "token": "secret"}))
    assert server_api.find_server() == server_api.Server("http://127.0.0.1:8000", "secret")
    monkeypatch.setenv("TROUPE_URL", "http://elsewhere:8000")
    with pytest.raises(server_api.ServerFailure, match="TROUPE_TOKEN is not set"):
        server_api.find_server()
    monkeypatch.setenv("TROUPE_URL", "http://127.0.0.1:8000/")
    assert server_api.find_server().token == "secret"


def test_pages_have_the_public_address_and_requests_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TROUPE_HOME", str(tmp_path))
    local = {"url": "http://web:8000", "token": "secret", "public_url": "https://lab.example.org"}
    (tmp_path / "local.json").write_text(json.dumps(local))
    server = server_api.find_server()
    assert (server.page("/runs/1/"), server.address("/api/")) == (
        "https://lab.example.org/runs/1/", "http://web:8000/api/",
    )  # fmt: skip


def test_presets_are_listed(troupe: Troupe) -> None:
    result = troupe("presets").out
    assert "plan_path_duo" in result and "takes 1 to 2 minutes on two CPU cores" in result
    assert json.loads(troupe("presets", "--json").out)["plan_path_duo"]["environment"]["type"] == "plan_path"


def test_presets_are_grouped_by_agents_and_task_and_searchable(troupe: Troupe) -> None:
    lines = troupe("presets").out.splitlines()
    headings = [line for line in lines if line.startswith(("Language models: ", "Small networks: "))]
    assert headings[0] == "Language models: Plan-Path" and headings[-1] == "Small networks: Memory"
    assert len(headings) == len(set(headings)) == 9
    found = json.loads(troupe("presets", "MEMORY", "gru", "--json").out)
    assert list(found) == ["recall_mappo_gru", "recall_ippo_gru"]


def test_a_local_run_is_checked_before_it_starts(tmp_path: Path) -> None:
    command = launching.local_command("plan_path_duo", ["run.seed=1"], tmp_path)
    assert command[1:] == [
        "-m", "workers.run", "--preset", "plan_path_duo", "--local", "run.seed=1", "--home", str(tmp_path),
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="there is no such field"):
        launching.local_command("plan_path_duo", ["run.sed=1"], tmp_path)
    with pytest.raises(ConfigError, match="cannot be read"):
        launching.local_command(str(tmp_path / "none.toml"), [], tmp_path)


def test_doctor_runs_all_checks(troupe: Troupe) -> None:
    result = troupe("doctor", "--json")
    found = {finding["what"]: finding for finding in json.loads(result.out)}
    names = {"Python", "torch version", "django-ninja", "Chromium", "sandbox", "disk", "machine", "GPU"}
    assert names <= set(found)
    assert found["torch version"]["level"] == "ok"
    assert "troupe up" in found["stack"]["text"]
    assert result.status == 0
    assert "torch version" in troupe("doctor").out


def test_doctor_names_remedies(troupe: Troupe, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"torch": "2.14.0", "django-ninja": "1.5"}
    monkeypatch.setattr(doctor, "_version", lambda name: versions.get(name, ""))
    result = troupe("doctor")
    assert result.status == 1
    for part in ("2.14.0, not 2.13.0", "uninstall it", "ray: is not installed; run `make install`"):
        assert part in result.out


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (12.4, "12 s"), (185, "3 min 05 s"), (3720, "1 h 02 min"), (float("inf"), "–")],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert show.duration(seconds) == text


def test_a_spark_line_leaves_gaps() -> None:
    assert show.spark([0.0, "NaN", 0.5, None, 1.0]) in ("▁ ▅ █", "▁ ▄ █")
    assert show.spark([2.0, 2.0]) == "▁▁" and show.spark(["NaN"]) == ""


def test_up_runs_manage_py_of_the_checkout(tmp_path: Path) -> None:
    """`up` becomes manage.py up: another stack that holds the home is told by it, not by us."""
    home = tmp_path / "home"
    home.write_text("a file where the data folder should be")
    environment = {**os.environ, "TROUPE_HOME": str(home)}
    result = subprocess.run(
        [sys.executable, "-m", "troupe_client.cli.app", "up"], capture_output=True, text=True, cwd=ROOT,
        env=environment,
    )  # fmt: skip
    assert result.returncode == 1
    assert f"TROUPE_HOME={home}" in (result.stdout + result.stderr).replace("\n", "")
