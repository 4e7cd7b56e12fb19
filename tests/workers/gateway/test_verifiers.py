"""environment.type = "verifiers": environments of the real package, in an environment of its own, played through the gateway."""

import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.architecture.source import ROOT
from tests.workers.gateway.environments import client_python
from tests.workers.gateway.playing import SETTINGS, TOKENIZER, Scripted, make_gateway
from training_core.llm.agents.session import PolicyClient, Session, SessionSpec, write_episode
from training_core.llm.generation.rendering import Renderer
from training_core.types import Episode

GATEWAY = "tests.workers.gateway"
MODULE = f"{GATEWAY}.verifiers_environments"
LOOK, STEP, COMPASS = (
    f'<tool_call>\n{{"name": "{name}", "arguments": {{}}}}\n</tool_call>'
    for name in ("_look", "step", "compass_look")
)


class Case(NamedTuple):
    """An environment, what its policies answer by role, and the rewards."""

    path: str
    answers: dict[str, tuple[str, ...]]
    rewards: dict[str, float]
    args: dict[str, Any] = {}


CASES = {
    "single turn": Case(f"{MODULE}:single_turn", {"solver": ("north",)}, {"solver": 1.5}, {"bonus": 0.5}),
    "tools": Case(f"{MODULE}:tools", {"solver": (LOOK, "north")}, {"solver": 1.0}),
    "stateful tools": Case(f"{MODULE}:stateful_tools", {"solver": (STEP, STEP, "east")}, {"solver": 2.0}),
    "multi turn": Case(f"{MODULE}:multi_turn", {"solver": ("east", "west", "north")}, {"solver": 1 / 3}),
    "group": Case(f"{MODULE}:group", {"solver": ("north",)}, {"solver": 1.0}),
    "questions without an end": Case(f"{MODULE}:Questions", {"agent": ("north",)}, {"agent": 1.0}),
    "tools of a taskset": Case(f"{GATEWAY}.verifiers_compass", {"agent": (COMPASS, "north")}, {"agent": 1.0}),
    "two seats": Case(
        f"{MODULE}:Pennies",
        {"even": ("heads", "heads"), "odd": ("heads", "heads")},
        {"even": 2.0, "odd": -2.0},
        {"taskset": {"id": MODULE}},
    ),
    "simulated user": Case(
        MODULE,
        {"user": ("go", "###DONE###"), "assistant": ("north",)},
        {"user": 0.0, "assistant": 1.0},
        {"id": "user-sim"},
    ),
}
WRONG = {
    "compared": "compares the rollouts of a group",
    "with_a_key": "needs WEATHER_KEY",
    "from_a_network": "needs a network: ConnectionError: hub.example",
    "nobody": "has no 'nobody'",
    "Pennies": "plays the tasks of a taskset; set environment.args.taskset.id",
}


def offered(path: str, roles: dict[str, tuple[str, ...]], args: dict[str, Any], number: int = 0) -> Session:
    """An episode whose roles answer as scripted."""
    clients = {
        role: PolicyClient("policy", Scripted(*texts), SETTINGS, Renderer(TOKENIZER))
        for role, texts in roles.items()
    }
    data = {"path": path, "args": args, "number": number, "split": "train"}
    episode = Episode("e", 1, "train", "task", "a task", siblings="s")
    return Session(SessionSpec(episode, data, clients, (0, 3, 1, 5)))


def play(
    python: Path, folder: Path, sessions: list[Session], changes: dict[str, str] | None = None
) -> list[Episode]:
    """Have sessions played by verifiers_player.py in its own process; `changes` are of its environment."""
    gateway = make_gateway()
    file = folder / "gateway.json"
    file.write_text(json.dumps({"url": gateway.url, "token": gateway.token}))
    gateway.offer(sessions)

    def end() -> None:
        for session in sessions:
            session.done.result(timeout=120)
        file.unlink()

    ending = threading.Thread(target=end, daemon=True)
    ending.start()
    program = [python, "-m", "tests.workers.gateway.verifiers_player", folder]
    variables = {
        "PYTHONPATH": str(ROOT),
        "HF_HOME": str(folder),
        "HOME": str(folder),
        "TROUPE_HOME": str(folder),
    } | (changes or {})
    try:
        done = subprocess.run(
            program, env=os.environ | variables, capture_output=True, text=True, timeout=180
        )
        assert done.returncode == 0, done.stderr[-4000:]
    finally:
        gateway.withdraw(sessions)
        gateway.close()
    return [write_episode(session, 1.0) for session in sessions]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return client_python("verifiers", tmp_path_factory)


@pytest.mark.extended
def test_environments_of_the_package_are_played_with_exact_tokens(python: Path, tmp_path: Path) -> None:
    """Each role's part is one sequence that has the tokens of its answers, as sampled, and no others to train on."""
    sessions = [offered(case.path, case.answers, case.args) for case in CASES.values()]
    for case, episode in zip(CASES.values(), play(python, tmp_path, sessions), strict=True):
        assert not episode.failed, (case.path, episode.error)
        rewards = {role: episode.role_return(role) for role in case.answers}
        assert rewards == pytest.approx(case.rewards), case.path
        if case.path in (f"{MODULE}:single_turn", f"{MODULE}:tools"):
            assert episode.reward_parts["solver"]["_right"] == 1.0, "a function of the rubric"
        assert sorted(turn.role for turn in episode.turns) == sorted(case.answers), case.path
        for turn in episode.turns:
            answer = turn.candidates[0].answer
            sampled = [
                [*TOKENIZER(text, add_special_tokens=False)["input_ids"], TOKENIZER.eos_token_id]
                for text in case.answers[turn.role]
            ]
            assert answer.learnt(answer.token_ids) == [token for ids in sampled for token in ids]


@pytest.mark.extended
def test_what_cannot_be_played_is_stated(python: Path, tmp_path: Path) -> None:
    sessions = [offered(f"{MODULE}:{path}", {"solver": ()}, {}) for path in WRONG]
    wrong_team = {"two": ("single_turn", ("one", "two")), "no seat": ("Questions", ("solver",))}
    sessions += [
        offered(f"{MODULE}:{path}", dict.fromkeys(roles, ()), {}) for path, roles in wrong_team.values()
    ]
    sessions.append(offered(f"{MODULE}:Pennies", {"even": ()}, {"taskset": {"id": MODULE}}))
    agents: list[dict[str, Any]] = [
        {"harness": {"id": "bash"}, "runtime": {"type": "subprocess"}},
        {"harness": {"id": "bash"}},
        {"runtime": {"type": "docker"}},
    ]
    sessions += [offered(f"{MODULE}:Questions", {"agent": ()}, {"agent": agent}) for agent in agents]
    errors = [episode.error for episode in play(python, tmp_path, sessions)]
    expected = [
        *WRONG.values(),
        "has one seat",
        "has no seat 'solver'; its seats are agent",
        "nobody plays the seat 'odd'",
        "bash would run the commands of agent on this machine",
        "needs a network and PRIME_API_KEY",
        "is held in this process",
    ]
    for error, part in zip(errors, expected, strict=True):
        assert part in error
