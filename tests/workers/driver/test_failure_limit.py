"""Runs of which nothing but failed episodes comes are given up, and never end as finished."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.workers.driver.own import Say
from tests.workers.running import curve, events, small_config
from training_core.config.files import load_config
from training_core.errors import EnvironmentFailure
from training_core.llm.environments.base import StepResult
from training_core.llm.rollout_workflows.api import RolloutWorkflow
from workers.driver.attempt import FAILED, run_attempt
from workers.driver.failure_limit import FailureLimit
from workers.jobs.context import figures
from workers.protocol import Attempt, EpisodeFacts

HERE = "tests.workers.driver.test_failure_limit"


def facts(failed: bool, error: str = "") -> EpisodeFacts:
    return EpisodeFacts(False, failed, 0.0, {}, {}, {}, 0, 0, 0, None, error)


FULL = replace(facts(False), overlong="no room")
GOOD, BAD = facts(False), facts(True, "ValueError: no tool")


class Broken:
    """An agent whose tool is away: always, in evaluation, or from a task on."""

    def __init__(self, split: str = "", since: int = 0) -> None:
        self.split, self.since = split, since

    async def run(self, data: dict[str, Any], *, client: Any, **kwargs: Any) -> float:
        if (self.split in ("", data["split"])) and data["number"] >= self.since:
            raise ValueError("no tool")
        await client.chat.completions.create(model="planner", messages=data["messages"])
        return float(data["number"] % 2)


class Workflow(RolloutWorkflow):
    """Raises in every call."""

    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> Any:
        raise ValueError("no tool")


class Unplayable(Say):
    """Raises when it is acted in."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, "east")

    def act(self, role: str, answer: str) -> StepResult:
        raise ValueError("no tool")


def attempt(folder: Path, model: Path, **overrides: Any) -> Attempt:
    settings = {
        "workflow.type": "agent",
        "workflow.path": f"{HERE}:Broken",
        "rollout.tasks": 4,
        "rollout.group_size": 2,
    }
    config = small_config(model, **settings | {"checkpoint.every": 0, "evaluation.every": 0} | overrides)
    return Attempt(config, "r", 1, folder, folder.parent)


def test_rounds_of_failures_in_a_row_are_counted_by_kind() -> None:
    failure_limit = FailureLimit(2)
    for episodes in ([BAD, BAD], [BAD, GOOD], [BAD], [], [GOOD], [BAD]):
        failure_limit.record("train", episodes)
        failure_limit.record("eval", [GOOD])
    failure_limit.finish()
    with pytest.raises(
        EnvironmentFailure,
        match="failed in 2 iterations in a row, 3 in the last one. One of them: ValueError: no tool. Correct the agent",
    ):
        failure_limit.record("train", [BAD] * 3)


def test_a_kind_without_completed_episodes_fails_at_the_end() -> None:
    failure_limit = FailureLimit(5)
    failure_limit.record("train", [GOOD])
    failure_limit.record("eval", [BAD])
    failure_limit.record("eval", [FULL, BAD])
    with pytest.raises(EnvironmentFailure, match="all 3 episodes of evaluation failed. One of them: no room"):
        failure_limit.finish()
    failure_limit.record("eval", [replace(FULL, turns=1)])
    failure_limit.finish()


def test_a_job_fails_if_all_episodes_failed() -> None:
    assert figures([GOOD, BAD])["failed"] == 1
    with pytest.raises(EnvironmentFailure, match="all 2 episodes failed. One of them: ValueError: no tool"):
        figures([BAD, BAD])


@pytest.mark.parametrize(
    ("overrides", "learnt", "message"),
    [
        ({}, 1, "All 16 episodes of training failed. One of them: ValueError: no tool"),
        ({"run.iterations": 9}, 2, "All episodes failed in 3 iterations in a row, 8 in the last one"),
        ({"run.iterations": 9, "workflow.args": {"since": 4}, "run.failure_patience": 2}, 2, "in 2 iterations in a row"),
        ({"workflow.args": {"split": "eval"}, "evaluation.every": 1}, 2, "16 episodes of evaluation failed"),
        (
            {"run.iterations": 9, "rollout.staleness": 1, "policies.planner.devices.placement": "apart",
             "policies.executor.devices.placement": "apart"},
            2, "All episodes failed in 3 iterations in a row",
        ),
        ({"run.iterations": 9, "workflow.type": "rollout_workflow", "workflow.path": f"{HERE}:Workflow"}, 2, "in 3 iterations"),
    ],
    ids=["a short run", "at once", "later", "evaluation", "asynchronous", "rollout workflow"],
)  # fmt: skip
def test_a_run_that_only_failed_ends_failed(
    overrides: dict[str, Any], learnt: int, message: str, little_model: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    if "evaluation.every" in overrides:
        overrides |= {
            "evaluation.episodes": 4,
            "evaluation.probes": 1,
            "evaluation.sampled": False,
            "run.iterations": 3,
        }
        overrides["run.failure_patience"] = 9
    assert run_attempt(attempt(tmp_path / "run", little_model, **overrides), local=True) == FAILED
    last = events(tmp_path / "run", "status")[-1]
    assert last["state"] == "failed" and message in last["message"]
    assert "finished" not in {event["state"] for event in events(tmp_path / "run", "status")}
    assert last["iteration"] >= learnt
    said = capsys.readouterr().out
    assert "nan" not in said and "failed: " in said
    if not overrides:
        assert "no episode was completed" in said


def test_an_environment_that_always_fails_ends_the_run_failed(little_model: Path, tmp_path: Path) -> None:
    """Turn by turn, without any agent."""
    config = load_config(
        "plan_path_duo",
        {
            "environment": {"type": "custom", "path": f"{HERE}:Unplayable"},
            "team.roles": {"solver": {"policy": "planner"}},
            "policies": {"planner": {"model": str(little_model)}},
            "rollout.tasks": 2, "rollout.group_size": 2, "run.iterations": 9, "evaluation.every": 0, "checkpoint.every": 0,
        },
    )  # fmt: skip
    assert run_attempt(Attempt(config, "r", 1, tmp_path / "run", tmp_path), local=True) == FAILED
    assert "in 3 iterations in a row" in events(tmp_path / "run", "status")[-1]["message"]
    assert curve(tmp_path / "run")["rollout/failed", 3] == 2
