"""Completion of commands and values by the shells' protocol."""

import socket

import pytest

from tests.troupe_client.cli.conftest import Troupe
from troupe_client.cli import completion
from webapp.runs.models import Run


@pytest.fixture
def complete(troupe: Troupe, monkeypatch: pytest.MonkeyPatch) -> object:
    """Return what bash is offered after a line; the last word is being typed."""

    def call(line: str) -> list[str]:
        monkeypatch.setenv("_TROUPE_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        result = troupe()
        assert (result.status, result.err) == (0, "")
        return result.out.split()

    return call


def test_nouns_verbs_and_presets_are_completed(complete: Troupe) -> None:
    assert complete("troupe sw") == ["sweep"]
    assert sorted(complete("troupe sweep s")) == ["show", "stop"]
    assert "plan_path_duo" in complete("troupe launch plan_")  # type: ignore[operator]
    assert "--json" in complete("troupe runs --")  # type: ignore[operator]


def test_runs_and_projects_are_completed(
    complete: Troupe, run: Run, connected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completion, "SECONDS", 60.0)
    assert complete(f"troupe show {run.pk[:3]}") == [run.pk]
    assert complete(f"troupe checkpoint list {run.pk[:3]}") == [run.pk]
    assert complete("troupe member list l") == ["lab"]


def test_a_silent_server_completes_nothing(complete: Troupe, monkeypatch: pytest.MonkeyPatch) -> None:
    assert complete("troupe show a") == [], "no server"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("TROUPE_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("TROUPE_TOKEN", "t")
        assert complete("troupe show a") == []
