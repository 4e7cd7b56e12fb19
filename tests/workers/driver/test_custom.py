"""Environment, workflow and agent of a user's own, by import path, in a run of this process."""

from pathlib import Path
from typing import Any

import pytest

from tests.workers.running import curve, events
from training_core.config.files import parse_config
from training_core.errors import ConfigError
from training_core.llm.environments.host import EnvironmentHost
from workers.driver.attempt import run_attempt
from workers.protocol import Attempt

OWN = "tests.workers.driver.own"


def own(model: Path, **workflow: Any) -> dict[str, Any]:
    return {
        "run": {"iterations": 2},
        "team": {
            "roles": {
                "speaker": {"policy": "p", "agent": {"path": f"{OWN}:louder", "args": {"word": "here"}}}
            }
        },
        "policies": {"p": {"model": str(model)}},
        "environment": {"type": "custom", "path": f"{OWN}:Say", "args": {"word": "east"}, "max_turns": 1},
        "workflow": {"type": "custom", "path": f"{OWN}:Play", "args": {"note": "mine"}} | workflow,
        "rollout": {"tasks": 4, "group_size": 1},
        "algorithm": {"type": "reinforce_plus_plus", "kl_coefficient": 0.0},
        "evaluation": {"every": 1, "episodes": 4, "probes": 1},
    }


def attempt(folder: Path, tree: dict[str, Any]) -> Attempt:
    return Attempt(parse_config(tree), "r", 1, folder, folder.parent)


@pytest.mark.extended
def test_custom_environment_workflow_and_reward_work_together(little_model: Path, tmp_path: Path) -> None:
    assert run_attempt(attempt(tmp_path, own(little_model)), local=True) == 0
    values = curve(tmp_path)
    assert 0 <= values["train/success", 2] <= 1 and 0 <= values["eval/success", 2] <= 1
    played = [each for each in events(tmp_path, "episode") if each["kind"] == "train"]
    assert played and all(each["title"] == "mine: say east" for each in played)
    assert all(
        turn["messages"][-1]["content"] == "goal 1 east here" for each in played for turn in each["turns"]
    )


def test_what_an_environment_prints_is_in_the_log(
    little_model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tree = own(little_model)
    tree["environment"]["path"] = f"{OWN}:Talk"
    tree["run"]["iterations"] = 1
    assert run_attempt(attempt(tmp_path, tree), local=True) == 0
    lines = [(line["level"], line["source"], line["message"]) for line in events(tmp_path, "log")]
    assert ("output", "driver", "task 0 of train") in lines
    assert ("output", "driver", "token=[redacted] is a secret") in lines
    error = next(text for level, source, text in lines if level == "error" and source == "driver")
    assert error.startswith("Traceback") and error.endswith("ValueError: printed, not raised")
    evaluations = [text for *_, text in lines if text.startswith("evaluation after iteration 1, greedy")]
    assert len(evaluations) == 1, "the driver's own lines are reported once"
    assert "\x1b[32mtask 0\x1b[0m of train" in capfd.readouterr().out


def test_a_workflow_that_returns_no_episodes_is_reported(little_model: Path, tmp_path: Path) -> None:
    tree = own(little_model, path=f"{OWN}:not_episodes", args={})
    assert run_attempt(attempt(tmp_path, tree), local=True) != 0
    assert "a workflow must return a list of Episode" in events(tmp_path, "status")[-1]["message"]


@pytest.mark.parametrize(
    ("path", "args", "said"),
    [
        (f"{OWN}:Nobody", {}, "has no 'Nobody'"),
        (f"{OWN}:Say", {}, "cannot be constructed with seed and environment.args"),
        ("collections:Counter", {}, "is not an environment: it has no reset"),
    ],
)
def test_an_unavailable_environment_fails_before_play(
    tmp_path: Path, path: str, args: dict[str, Any], said: str
) -> None:
    config = parse_config(own(tmp_path) | {"environment": {"type": "custom", "path": path, "args": args}})
    with pytest.raises(ConfigError, match=said):
        EnvironmentHost(config.environment, 0)
