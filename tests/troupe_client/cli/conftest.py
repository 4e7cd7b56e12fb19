"""The `troupe` command in this process, against a real server in a thread."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import django
import pytest
import typer

django.setup()  # conftest files are imported before pytest-django does it

from training_core.config.files import load_config  # noqa: E402
from troupe_client.cli.app import app, main  # noqa: E402
from webapp.accounts.models import Membership, Project, User  # noqa: E402
from webapp.accounts.tokens import token_create  # noqa: E402
from webapp.runs.models import Run  # noqa: E402


@dataclass(frozen=True)
class CommandResult:
    """What a call has printed and how it ended."""

    status: int
    out: str
    err: str


Troupe = Callable[..., CommandResult]
PROGRAM = typer.main.get_command(app)
"""Built once, not for each call."""


@pytest.fixture
def troupe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Troupe:
    """Call the command with these words; its home is empty."""
    monkeypatch.setenv("TROUPE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("typer.main.get_command", lambda app: PROGRAM)

    def call(*words: str) -> CommandResult:
        monkeypatch.setattr(sys, "argv", ["troupe", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        result = capsys.readouterr()
        return CommandResult(int(ended.value.code or 0), result.out, result.err)

    return call


@pytest.fixture
def ada(transactional_db: None) -> User:
    """The owner of the project lab."""
    user = User.objects.create_user("ada")
    lab = Project.objects.create(slug="lab", name="Lab")
    Membership.objects.create(project=lab, user=user, level=Membership.Level.OWNER)
    return user


@pytest.fixture
def connected(servers: Any, live_server: Any, ada: User, monkeypatch: pytest.MonkeyPatch) -> str:
    """Address of the server; the environment names it and a token of ada's."""
    monkeypatch.setenv("TROUPE_URL", live_server.url)
    monkeypatch.setenv("TROUPE_TOKEN", token_create(ada, "cli", ["read", "launch", "admin"])[1])
    return str(live_server.url)


@pytest.fixture
def run(ada: User) -> Run:
    """A run of ada's that is waiting to start."""
    config = load_config("plan_path_duo")
    return Run.objects.create(
        project=Project.objects.get(slug="lab"), owner=ada, name="first [bold]try[/bold]", preset="plan_path_duo",
        config=config.model_dump(mode="json"), iterations=config.run.iterations,
    )  # fmt: skip
