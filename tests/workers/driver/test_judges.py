"""A run learns from a judge as from the rule that the judge follows."""

from pathlib import Path
from typing import Any

import pytest

from tests.training_core.llm.rewards.judge_server import JudgeServer, by, serving
from tests.workers.running import curve, over_lines
from workers.driver.attempt import run_attempt

ITERATIONS = 12
RULE = {"type": "custom", "path": "tests.training_core.llm.rewards.reward_functions:later", "processes": 1}
MATH = "training_core.llm.rewards.math:MathReward"


def played(folder: Path, model: Path, reward: dict[str, Any], **overrides: Any) -> dict[tuple[str, int], Any]:
    """The curves of a run that is rewarded for saying "north", with a greedy evaluation at the start and at the end."""
    settings = {
        "environment.reward": reward,
        "workflow.type": "turn_tree",
        "run.iterations": ITERATIONS,
        "rollout.group_size": 6,
        "resources.environments_per_worker": 8,
        "evaluation.every": ITERATIONS,
        "evaluation.episodes": 8,
        "evaluation.sampled": False,
        "environment.eval_share": 0.2,
    }
    assert run_attempt(over_lines(folder, model, **settings | overrides), local=True) == 0
    return curve(folder)


@pytest.mark.extended
def test_a_run_learns_from_a_judge_as_from_its_rule(little_model: Path, tmp_path: Path) -> None:
    """Grades of 0 and 10 are the rule's rewards, so the curves are equal bit for bit; positions in the group teach the same."""
    by_rule = played(tmp_path / "rule", little_model, RULE)
    assert (by_rule["eval/success", 0], by_rule["eval/success", ITERATIONS]) == (0.0, 1.0)
    assert by_rule["train/return", 1] == 0.0 < by_rule["train/return", ITERATIONS]
    with serving(JudgeServer(by(lambda text: 10 * (text == "north")))) as server:
        judge = {
            "type": "judge",
            "url": server.url,
            "model": "rule",
            "rule": RULE["path"],
            "prompt_price": 1.0,
        }
        graded = played(tmp_path / "graded", little_model, judge)
        ranked = played(tmp_path / "ranked", little_model, judge | {"method": "ranking"})
    figures = {name for name, _ in graded if "judge/" in name}
    assert figures >= {"judge/requests", "judge/cost", "judge/agreement", "eval/judge/prompt_tokens"}
    rest = {key: value for key, value in graded.items() if key[0] not in figures}
    assert rest == by_rule, "bit for bit"
    assert graded["judge/agreement", 1] == ranked["judge/agreement", 1] == 1.0
    assert ranked["eval/success", ITERATIONS] == 1.0, "by the rubric"
