"""Hostile text and invalid arguments: errors without tracebacks, no escape sequences in the terminal."""

import subprocess
import sys

import pytest
from django.utils import timezone

from tests.troupe_client.cli.conftest import Troupe
from webapp.runs.models import LogLine, Run

pytestmark = pytest.mark.usefixtures("connected")


def test_escape_sequences_of_a_run_do_not_reach_the_terminal(troupe: Troupe, run: Run) -> None:
    hostile = "\x1b]0;owned\x07\x1b[2J[red]x[/nonsense]"
    Run.objects.update(name=hostile, reason=hostile)
    LogLine.objects.create(
        run=run,
        attempt=1,
        cursor=1,
        time=timezone.now(),
        level="info",
        source="agent",
        message=f"{hostile}\nsecond",
    )
    for words in (["runs"], ["show", run.pk], ["logs", run.pk]):
        result = troupe(*words)
        assert result.status == 0, result.err
        assert "\x1b" not in result.out
        assert "\x07" not in result.out
        assert "[red]x[/nonsense]" in result.out


@pytest.mark.parametrize("run_id", ["a/b", "../presets", "x?limit=1", "%00", "ü", ""])
@pytest.mark.parametrize("command", ["logs", "stop", "watch"])
def test_an_impossible_run_id_is_refused(troupe: Troupe, command: str, run_id: str) -> None:
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
def test_invalid_overrides_are_refused(troupe: Troupe, word: str, told: str) -> None:
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
