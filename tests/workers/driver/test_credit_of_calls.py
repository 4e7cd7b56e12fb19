"""Rewards by call of AReaL's workflows and agents: each call learns from its own discounted return, or all from the sum."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.training_core.llm.rollout_workflows.areal_guide import reward_fn
from tests.workers.driver.test_areal_guide import GUIDE, attempt
from tests.workers.running import curve, events
from training_core.config.files import load_config
from training_core.errors import ConfigError
from training_core.llm.rollout_workflows.api import Interaction
from training_core.llm.rollout_workflows.areal import GenerationHyperparameters, LLMRequest, RolloutWorkflow
from workers.driver.attempt import run_attempt

QUEUES = {
    "workflow.path": f"{GUIDE}:MathMultiTurnAgent",
    "workflow.environment_path": f"{GUIDE}:MathCodeSingleStepEnv",
    "workflow.args": {"num_turns": 2},
}
EXPORTED = {"workflow.path": f"{__name__}:Exporting", "workflow.args": {}}
SEPARATE = {**EXPORTED, "workflow.args": {"fresh": True}}
ONE = {
    "run.iterations": 1,
    "algorithm.std_level": "none",
    "workflow.export_style": "individual",
    "workflow.turn_discount": 0.5,
}


class Exporting(RolloutWorkflow):
    """Hands over its calls by id with what each earned, as AReaL's clients export them. `fresh` calls do not continue one another."""

    def __init__(self, gconfig: GenerationHyperparameters, tokenizer: Any, fresh: bool = False) -> None:
        self.gconfig, self.tokenizer, self.fresh = gconfig, tokenizer, fresh

    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> dict[str, Interaction]:
        ids = self.tokenizer.apply_chat_template(data["messages"], tokenize=True, add_generation_prompt=True)
        found = {}
        for number in range(3):
            response = await engine.agenerate(LLMRequest(input_ids=ids, gconfig=self.gconfig))
            said = self.tokenizer.decode(response.output_tokens)
            reward = reward_fn(prompt="", completions=said, prompt_ids=[], completion_ids=[], label="north")
            found[f"chatcmpl-{number}"] = Interaction(response, reward)
            if not self.fresh:
                ids = [
                    *ids,
                    *response.output_tokens,
                    *self.tokenizer("<user> stuck <assistant>")["input_ids"],
                ]
        return found


def groups(folder: Path) -> Iterator[list[tuple[list[float], list[float]]]]:
    """For each task its siblings: what their turns earned, and the turns' advantages."""
    told = {event["episode"]: event["turns"] for event in events(folder, "episode_annotation")}
    tasks: dict[str, list[tuple[list[float], list[float]]]] = {}
    for event in events(folder, "episode"):
        earned = [turn["candidates"][0]["reward"] for turn in event["turns"]]
        tasks.setdefault(event["task"], []).append(
            (earned, [turn["advantages"][0] for turn in told[event["episode"]]])
        )
    yield from tasks.values()


@pytest.mark.parametrize(
    ("brought", "calls"), [(QUEUES, 2), (EXPORTED, 3), (SEPARATE, 3)], ids=["queues", "exported", "separate"]
)
def test_each_call_learns_from_its_own_return(
    brought: dict[str, Any], calls: int, little_model: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    assert run_attempt(attempt(folder, little_model, **brought | ONE), local=True) == 0
    assert curve(folder)["rollout/failed", 1] == 0
    seen = set()
    for siblings in groups(folder):
        assert len(siblings) == 4
        returns = []
        for earned, _ in siblings:
            assert len(earned) == calls and set(earned) <= {0.0, 1.0}
            returns.append([sum(r * 0.5**gap for gap, r in enumerate(earned[at:])) for at in range(calls)])
        for (_, advantages), mine in zip(siblings, returns, strict=True):
            means = [sum(each[at] for each in returns) / 4 for at in range(calls)]
            assert advantages == pytest.approx([mine[at] - means[at] for at in range(calls)], abs=1e-6)
            seen.add(tuple(advantages))
    assert any(len(set(each)) > 1 for each in seen), "credit is by call"


@pytest.mark.extended
def test_joined_calls_learn_from_the_roles_reward(little_model: Path, tmp_path: Path) -> None:
    concat = ONE | {"workflow.export_style": "concat", "workflow.turn_discount": 1.0}
    for name, brought, turns in (("joined", EXPORTED, 1), ("separate", SEPARATE, 3)):
        folder = tmp_path / name / "run"
        folder.parent.mkdir()
        assert run_attempt(attempt(folder, little_model, **brought | concat), local=True) == 0
        for siblings in groups(folder):
            assert len(siblings) == 4, "interactions by id are one episode, however many sequences they are"
            mean = sum(sum(earned) for earned, _ in siblings) / 4
            for earned, advantages in siblings:
                assert advantages == pytest.approx([sum(earned) - mean] * turns, abs=1e-6)


def test_tensors_are_refused_with_credit_per_call(little_model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert run_attempt(attempt(folder, little_model, **ONE), local=True) == 1
    assert all("returned tensors" in event["error"] for event in events(folder, "episode"))


def test_a_discount_of_sequences_is_refused() -> None:
    changes = {
        "workflow.type": "rollout_workflow",
        "workflow.path": f"{GUIDE}:MultiTurnWorkflow",
        "workflow.turn_discount": 0.5,
    }
    with pytest.raises(ConfigError, match='set export_style = "individual"'):
        load_config("plan_path_duo", changes)
