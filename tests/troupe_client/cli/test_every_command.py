"""Rules for all commands: JSON, help, corrected names, completion, hostile text and invalid words."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from django.utils import timezone

from tests.troupe_client.cli.conftest import Troupe
from troupe_client.cli import arguments
from troupe_client.cli.app import app
from webapp.runs.models import LogLine, Run

WITHOUT_JSON = {
    "up": "serves", "watch": "redraws the terminal; `troupe show --json` prints the run",
    "checkpoint talk": "asks for input", "buffer serve": "serves", "mcp": "serves an assistant", "metric export": "writes CSV",
    "episode export": "writes JSON Lines",
}  # fmt: skip


def leaves(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every command that is not a group, with its path."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from leaves(inner, f"{path} {name}".strip())
    if not hasattr(command, "commands"):
        yield path, command


COMMANDS = dict(leaves(typer.main.get_command(app)))


def test_every_command_prints_json_or_has_a_reason() -> None:
    without = {
        path
        for path, command in COMMANDS.items()
        if not any("--json" in option.opts for option in command.params)
    }
    assert without == set(WITHOUT_JSON)


@pytest.mark.parametrize("path", COMMANDS)
def test_help_is_one_imperative_sentence(path: str) -> None:
    text = " ".join(COMMANDS[path].help.split())
    assert text.endswith(".") and ". " not in text
    assert text[0].isupper() and (text.startswith("Dismiss") or not text.split()[0].endswith("s"))


@pytest.mark.parametrize(
    ("words", "suggested"),
    [
        ("sweep-show", "'sweep show'"),
        ("lunch", "'launch'"),
        ("webhooks", "'webhook list'"),
        ("evaluate", "'checkpoint evaluate'"),
        ("swep list", "'sweep'"),
        ("sweep shwo", "'sweep show'"),
    ],
)
def test_a_wrong_name_is_corrected(troupe: Troupe, words: str, suggested: str) -> None:
    result = troupe(*words.split())
    assert result.status == 2
    assert f"Did you mean {suggested}" in result.err


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
    monkeypatch.setattr(arguments, "SECONDS", 60.0)
    assert complete(f"troupe show {run.pk[:3]}") == [run.pk]
    assert complete(f"troupe checkpoint list {run.pk[:3]}") == [run.pk]
    assert complete("troupe member list l") == ["lab"]


def test_a_silent_server_completes_nothing(complete: Troupe, monkeypatch: pytest.MonkeyPatch) -> None:
    assert complete("troupe show a") == [], "no server"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("TROUPE_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("TROUPE_TOKEN", "t")
        assert complete("troupe show a") == []


def test_escape_sequences_of_run_do_not_reach_the_terminal(troupe: Troupe, connected: str, run: Run) -> None:
    hostile = "\x1b]0;owned\x07\x1b[2J[red]x[/nonsense]"
    Run.objects.update(name=hostile, reason=hostile)
    line = {"level": "info", "source": "agent", "message": f"{hostile}\nsecond"}
    LogLine.objects.create(run=run, attempt=1, cursor=1, time=timezone.now(), **line)
    for words in (["runs"], ["show", run.pk], ["logs", run.pk]):
        result = troupe(*words)
        assert result.status == 0, result.err
        assert not {"\x1b", "\x07"} & set(result.out) and "[red]x[/nonsense]" in result.out


@pytest.mark.parametrize("run_id", ["a/b", "../presets", "x?limit=1", "%00", "ü", ""])
@pytest.mark.parametrize("command", ["logs", "stop", "watch"])
def test_an_impossible_run_id_is_refused(troupe: Troupe, connected: str, command: str, run_id: str) -> None:
    result = troupe(command, run_id)
    assert result.status == 1
    assert "is not a run id" in result.err


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("environment.step_reward=nan", "use finite numbers"),
        ("environment.step_reward=-inf", "use finite numbers"),
        ("run.seed=2026-01-01", "run.seed"),
        ("run.seed", "key=value"),
    ],
)
def test_invalid_overrides_are_refused(troupe: Troupe, connected: str, word: str, told: str) -> None:
    result = troupe("launch", "plan_path_duo", word)
    assert result.status == 1
    assert told in result.err.replace("\n", " ")
    assert not Run.objects.exists()


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nsys.argv = ['troupe', '--help']\nfrom troupe_client.cli.app import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(sorted({'torch', 'ray', 'django', 'transformers', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "launch" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"
