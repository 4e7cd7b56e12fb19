"""The first program of docs/use/client.md, and what a program's author sees of its run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import troupe
from tests.architecture.source import ROOT
from tests.docs.fences import fences
from tests.webapp.scheduling.test_client_runs import connected
from training_core.errors import TroupeError
from webapp.accounts.models import User
from webapp.runs.models import Run

__all__ = ["connected"]  # a fixture
pytestmark = pytest.mark.django_db(transaction=True)


def executed(program: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, against the server of the environment."""
    file = tmp_path / "program.py"
    file.write_text(program)
    return subprocess.run(
        [sys.executable, file],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


@pytest.mark.extended
def test_the_first_program_of_the_documentation_runs(connected: User, tmp_path: Path) -> None:
    program = next(fence.text for fence in fences("docs/use/client.md") if fence.language == "python")
    done = executed(program, tmp_path)
    assert done.returncode == 0, done.stderr
    run = Run.objects.get()
    assert run.name == "grpo on maths" and run.state == "finished" and run.iteration == 1000
    assert done.stderr.count(f"/runs/{run.pk}/") == 1


def test_an_unknown_project_is_one_sentence_without_internals(connected: User, tmp_path: Path) -> None:
    done = executed('import troupe\ntroupe.init("harbour")\n', tmp_path)
    assert done.returncode == 1
    message = "there is no project 'harbour'; yours are: lab. Create it with `troupe project create`"
    assert message in done.stderr.splitlines()[-1]
    assert done.stderr.count('File "') == 2 and "server_api.py" not in done.stderr


def test_the_link_of_a_run_is_printed_once(connected: User, capsys: pytest.CaptureFixture[str]) -> None:
    run = troupe.init("lab")
    run.log({"a": 1.0})
    troupe.finish()
    assert capsys.readouterr().err.count(run.url) == 1
    assert f'href="{run.url}"' in run._repr_html_()
    with pytest.raises(TroupeError, match="yours are: lab"):
        troupe.init("<b>harbour")
