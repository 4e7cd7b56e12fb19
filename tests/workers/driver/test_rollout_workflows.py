"""Runs whose episodes are played by what AReaL's users write: a multi-turn workflow."""

from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.workers.running import conversation, curve, events, over_lines
from workers.driver.attempt import FAILED, run_attempt
from workers.protocol import Attempt

BROUGHT = "tests.training_core.llm.rollout_workflows.seed_agents"
GUIDE = "tests.training_core.llm.rollout_workflows.areal_guide"
WORKFLOW = {
    "workflow.path": f"{BROUGHT}:MultiTurnWorkflow",
    "workflow.args": {"max_turns": 3, "turn_discount": 0.5},
    "workflow.reward": {"type": "custom", "path": f"{BROUGHT}:says_label"},
}


def attempt(folder: Path, model: Path, **overrides: Any) -> Attempt:
    """Two iterations."""
    held_out = {"environment.eval_share": 0.3, "evaluation.episodes": 8, "evaluation.probes": 2}
    return over_lines(folder, model, **{"run.iterations": 2} | held_out | overrides)


@pytest.mark.extended
def test_the_policy_learns_from_a_custom_workflow(little_model: Path, tmp_path: Path) -> None:
    overrides = {"run.iterations": 20, "evaluation.every": 20}
    assert run_attempt(attempt(tmp_path / "run", little_model, **WORKFLOW | overrides), local=True) == 0
    values = curve(tmp_path / "run")
    returns = [values["train/return", step] for step in range(1, 21)]
    assert sum(returns[-5:]) / 5 > sum(returns[:5]) / 5 + 0.15, returns
    assert values["eval/return", 20] > values["eval/return", 0]
    assert values["eval/failed", 20] == 0


@pytest.mark.extended
def test_turns_are_one_sequence_whose_prompts_are_masked(little_model: Path, tmp_path: Path) -> None:
    assert run_attempt(attempt(tmp_path / "run", little_model, **WORKFLOW), local=True) == 0
    kept = events(tmp_path / "run", "episode")
    assert len(kept) == 2 * 8 * 8
    lengths = set()
    for event in kept:
        (turn,) = event["turns"]
        (answer,) = turn["candidates"]
        learnt = [version >= 0 for version in answer["versions"]]
        quiet = [text for text, mine in zip(answer["tokens"], learnt, strict=True) if not mine]
        asked_again = len(quiet) // 3
        assert quiet == ["<user>", "stuck", "<assistant>"] * asked_again
        assert learnt[0] and learnt[-1]
        assert all(value == 0.0 for value, mine in zip(answer["logprobs"], learnt, strict=True) if not mine)
        assert event["episode_return"] in (0.0, 0.5**asked_again)
        assert event["success"] == (event["episode_return"] >= 1.0)
        lengths.add(asked_again)
    assert lengths == {0, 1, 2}


@pytest.mark.extended
def test_answers_near_their_limit_cost_reward(little_model: Path, tmp_path: Path) -> None:
    soft = {"algorithm.overlong_tokens": 2, "algorithm.overlong_penalty": 3.0}
    for name, extra in (("plain", {}), ("soft", soft)):
        overrides = WORKFLOW | {"run.iterations": 1} | extra
        assert run_attempt(attempt(tmp_path / name, little_model, **overrides), local=True) == 0
    costs = []
    for before, after in zip(
        events(tmp_path / "plain", "episode"), events(tmp_path / "soft", "episode"), strict=True
    ):
        (answer,) = before["turns"][0]["candidates"]
        learnt = [version >= 0 for version in answer["versions"]]
        lengths = [len(list(stretch)) for mine, stretch in groupby(learnt) if mine]
        costs.append(sum(3.0 * min(max(length - 1, 0) / 2, 1.0) for length in lengths))
        assert before["episode_return"] - after["episode_return"] == pytest.approx(costs[-1])
    assert max(costs) > 0


def test_settings_without_effect_are_warnings_at_the_start_of_the_log(
    little_model: Path, tmp_path: Path
) -> None:
    overrides = WORKFLOW | {"run.iterations": 1, "algorithm.local_weight": 0.5}
    assert run_attempt(attempt(tmp_path / "run", little_model, **overrides), local=True) == 0
    said = [(event["level"], event["message"]) for event in events(tmp_path / "run", "log")]
    why = 'workflow.type = "rollout_workflow" has one reward, the team reward (team_weight)'
    assert ("warning", f"algorithm.local_weight has no effect here: {why}") in said[:3]


@pytest.mark.extended
def test_episodes_do_not_depend_on_the_number_in_parallel(little_model: Path, tmp_path: Path) -> None:
    for name, concurrency in (("a", 1), ("b", 64)):
        overrides = WORKFLOW | {"workflow.concurrency": concurrency, "run.iterations": 1}
        assert run_attempt(attempt(tmp_path / name, little_model, **overrides), local=True) == 0
    assert conversation(tmp_path / "a") == conversation(tmp_path / "b")


def test_failed_and_rejected_episodes_are_not_trained_on(little_model: Path, tmp_path: Path) -> None:
    overrides = {"workflow.path": f"{BROUGHT}:Failing", "run.iterations": 1, "rollout.tasks": 4}
    assert run_attempt(attempt(tmp_path / "run", little_model, **overrides), local=True) == 0
    ends = {
        event["task"]: (event["failed"], event["outcome"]) for event in events(tmp_path / "run", "episode")
    }
    assert ends == {
        "train-0": (False, "rejected"),
        "train-1": (True, "failed: RuntimeError: the tool is down"),
        "train-2": (
            True,
            "failed: EnvironmentFailure: arun_episode must return tensors, interactions, or None for a rejected episode",
        ),
        "train-3": (True, "failed: RuntimeError: the tool is down"),
    }
    assert curve(tmp_path / "run")["rollout/failed", 1] == 24


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"workflow.path": "no.such:Workflow"}, "there is no module"),
        ({"workflow.path": f"{BROUGHT}:says_label"}, "workflow.args: "),
        ({"workflow.path": f"{GUIDE}:MathCodeSingleStepEnv"}, "neither arun_episode nor collect_trajectory"),
        ({"workflow.path": f"{BROUGHT}:MultiTurnWorkflow"}, "max_turns"),
    ],
)
def test_a_workflow_that_cannot_be_constructed_ends_the_run(
    settings: dict[str, Any], message: str, little_model: Path, tmp_path: Path
) -> None:
    assert run_attempt(attempt(tmp_path / "run", little_model, **settings), local=True) == FAILED
    assert message in events(tmp_path / "run", "status")[-1]["message"]
