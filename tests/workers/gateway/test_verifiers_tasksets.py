"""TextArena, OpenEnv and Harbor as tasksets of verifiers: the real packages, in environments of their own."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from tests.workers.gateway.docker_stand_in import program
from tests.workers.gateway.environments import client_python
from tests.workers.gateway.test_verifiers import offered, play

pytestmark = pytest.mark.extended
HANGMAN = {"taskset": {"game": "Hangman-v0"}}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return client_python("tasksets", tmp_path_factory)


@pytest.fixture
def openenv(python: Path, tmp_path: Path) -> Iterator[str]:
    """The address of an OpenEnv server."""
    file = tmp_path / "address"
    program = [python, "-m", "tests.workers.gateway.openenv_server", file]
    server = subprocess.Popen(program, env=os.environ | {"PYTHONPATH": str(ROOT)})
    try:
        while not file.exists() or not file.read_text():
            assert server.poll() is None
            time.sleep(0.1)
        yield file.read_text()
    finally:
        server.kill()
        server.wait()


def test_a_game_of_textarena_is_played_with_the_data_of_nltk(python: Path, tmp_path: Path) -> None:
    """Without them and without a network, the config is refused."""
    (missing,) = play(python, tmp_path, [offered("textarena", {"player": ()}, HANGMAN)])
    assert "textarena needs a network: LookupError: Resource 'words' not found" in missing.error
    words = tmp_path / "nltk_data/corpora/words"
    words.mkdir(parents=True)
    for name in ("en", "en-basic"):
        (words / name).write_text("north\n")
    answers = ("[z]", *(f"[{letter}]" for letter in "north"))
    (episode,) = play(python, tmp_path, [offered("textarena", {"player": answers}, HANGMAN)])
    assert not episode.failed, episode.error
    assert episode.role_return("player") == 1.0
    (turn,) = episode.turns
    assert turn.candidates[0].answer.text.count("[") >= len(answers)


def test_an_environment_behind_an_openenv_server_is_played(
    python: Path, tmp_path: Path, openenv: str
) -> None:
    """Its rewards of steps are added up. A lost server is no mistake of the policy, an action that is none is one."""
    args = {"taskset": {"base_url": openenv, "resets": [{"seed": seed} for seed in range(4)]}}
    walk = [json.dumps({"direction": direction}) for direction in ("west", "east", "east")]
    sessions = [
        offered("openenv", {"player": tuple(walk)}, args),
        offered("openenv", {"player": ("nowhere",)}, args),
        offered("openenv", {"player": ("north", "north")}, {"taskset": {"base_url": openenv}}),
        offered("openenv", {"player": ()}, {"taskset": {"base_url": "http://127.0.0.1:9"}}),
    ]
    played, wrong, single, lost = play(python, tmp_path, sessions)
    assert [played.role_return("player"), single.role_return("player")] == [2.0, 2.0], played.error
    assert len(played.turns) == 1 and '"goal": "east"' in str(played.turns[0])
    assert "is no direction" in wrong.error and wrong.error.startswith("RuntimeError")
    assert lost.error.startswith("EnvironmentFailure")


def harbor_task(home: Path) -> None:
    """A data set of one task where Harbor stores what it has downloaded."""
    task = home / ".cache/harbor/lab_goals/north"
    (task / "tests").mkdir(parents=True)
    (task / "task.toml").write_text('version = "1.0"\n[environment]\ndocker_image = "python:3.12-slim"\n')
    (task / "instruction.md").write_text("Write north into /app/goal.")
    (task / "tests/test.sh").write_text(
        "grep -c north /app/goal > /logs/verifier/reward.txt\ntouch /tests/ran\n"
    )


def test_a_task_of_harbor_is_played_in_a_container(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The policy runs commands there, and Harbor's verifier does; nothing is run on this machine."""
    if not shutil.which("bwrap"):
        pytest.skip("there is no bwrap")
    python = client_python("harbor", tmp_path_factory)
    harbor_task(tmp_path)
    call = {"name": "bash", "arguments": {"command": "echo north > goal; pwd"}}
    answers = (f"<tool_call>\n{json.dumps(call)}\n</tool_call>", "done")
    args = {"taskset": {"dataset": "lab/goals"}, "agent": {"runtime": {"type": "docker"}}}
    sessions = [
        offered("harbor", {"agent": answers}, args),
        offered("harbor", {"agent": ()}, args | {"agent": {"runtime": {"type": "subprocess"}}}),
        offered("harbor", {"agent": ()}, {"taskset": {"dataset": "lab/goals"}}),
    ]
    path = f"{program(tmp_path, python)}{os.pathsep}{os.environ['PATH']}"
    variables = {"PATH": path, "DOCKER_STAND_IN": str(tmp_path)}
    played, unsafe, unnamed = play(python, tmp_path, sessions, variables)
    assert not played.failed, played.error
    assert played.role_return("agent") == 1.0
    assert len(played.turns) == 1 and "/app" in played.turns[0].candidates[0].answer.text
    assert "bash would run the commands of agent on this machine" in unsafe.error
    assert "needs a network and PRIME_API_KEY" in unnamed.error
    assert not list((tmp_path / "containers").iterdir())
