"""Every command of docs/reference/api.md, run in order against the real server; every JSON answer that it shows."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from webapp.accounts.models import Membership, Project, User
from webapp.accounts.tokens import token_create
from webapp.metrics.selectors import keys
from webapp.runs.models import Attempt, LogLine, Run

PAGE = (Path(__file__).resolve().parents[3] / "docs/reference/api.md").read_text()
BLOCKS = re.findall(r"```(sh|json)\n(.*?)```", PAGE, re.DOTALL)


def test_no_host_but_this_machine_is_named() -> None:
    assert set(re.findall(r"https?://([^/:`\s]+)", PAGE)) == {"127.0.0.1"}


def test_commands_do_what_the_page_says(
    transactional_db: None, servers: Any, live_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.scheduling.services.submit_soon", lambda run_id: None)
    user = User.objects.create_user("ada")
    project = Project.objects.create(slug="lab", name="Lab")
    Membership.objects.create(project=project, user=user, level=Membership.Level.OWNER)
    local = {"url": live_server.url, "token": token_create(user, "local", ["read", "launch", "admin"])[1]}
    (tmp_path / "var").mkdir()
    (tmp_path / "var" / "local.json").write_text(json.dumps(local))
    said = ""
    for kind, text in BLOCKS:
        if kind == "json":
            assert json.loads(said) == json.loads(text)
            continue
        if "/events/" in text:
            run = Run.objects.get()
            Attempt.objects.create(run=run, number=1, submission_id="s", state="live")
            Run.objects.update(state="running")
        said = _shell(text, tmp_path)
    run = Run.objects.get()
    assert (run.name, run.config["run"]["seed"], run.tags) == ("seed 3", 3, ["seeds"])
    assert [facts.key for facts in keys(run)] == ["my/loss", "my/score"]
    assert LogLine.objects.get(run=run).message == "hello"


def _shell(text: str, folder: Path) -> str:
    """Run a block; what it exports is there for the next."""
    script = f"set -euo pipefail\nsource ./exported 2>/dev/null || true\n{text}\nexport -p > exported\n"
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return done.stdout
