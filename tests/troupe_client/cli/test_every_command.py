"""Rules for all commands."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from tests.troupe_client.cli.conftest import Troupe
from troupe_client.cli.app import app

WITHOUT_JSON = {
    "up": "serves",
    "watch": "redraws the terminal; `troupe show --json` prints the run",
    "checkpoint talk": "asks for input",
    "buffer serve": "serves",
    "metric export": "writes CSV",
    "episode export": "writes JSON Lines",
}


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
