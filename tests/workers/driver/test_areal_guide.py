"""Runs and scripts of AReaL's guide, with its own classes: every update learns from the ids that were sampled."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tests.training_core.llm.rollout_workflows.areal_guide import MultiTurnWorkflow, reward_fn
from tests.training_core.llm.toys import SMALL, TOKENIZER
from tests.workers.running import curve, events, over_lines
from training_core.config.files import parse_overrides
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.llm.rollout_workflows.api import RowData, workflow_tokenizer
from training_core.llm.rollout_workflows.areal import (
    GenerationHyperparameters,
    InferenceEngine,
    cycle_dataloader,
    stats_tracker,
)
from training_core.llm.rollout_workflows.inference_engine import RolloutLimits
from workers.driver.attempt import FAILED, run_attempt
from workers.protocol import Attempt

pytestmark = pytest.mark.extended

GUIDE = "tests.training_core.llm.rollout_workflows.areal_guide"
EXPERIMENT = "tests.training_core.llm.rollout_workflows.areal_experiment"
KNOWN: dict[str, Any] = {
    "workflow.path": f"{GUIDE}:MultiTurnWorkflow",
    "workflow.args": {"max_turns": 3, "turn_discount": 0.5},
    "workflow.reward": {"type": "custom", "path": f"{GUIDE}:reward_fn"},
}


def attempt(folder: Path, model: Path, **overrides: Any) -> Attempt:
    """Three iterations of six tasks with four candidates each."""
    sizes = {"rollout.tasks": 6, "rollout.group_size": 4, "run.iterations": 3}
    return over_lines(folder, model, **sizes | KNOWN | overrides)


def stretches_of(versions: list[int]) -> Iterator[bool]:
    """One for each run of tokens that were sampled: text stands between calls."""
    return (True for sampled, _ in groupby(version >= 0 for version in versions) if sampled)


def test_the_guides_workflow_trains_unchanged(little_model: Path, tmp_path: Path) -> None:
    """Its conversations are rendered again from text; the prompts and answers of its calls are trained on."""
    folder = tmp_path / "run"
    assert run_attempt(attempt(folder, little_model), local=True) == 0
    values = curve(folder)
    for iteration in (1, 2, 3):
        assert values["rollout/failed", iteration] == 0
        assert values["policy/planner/grad_norm", iteration] > 0
        assert values["policy/planner/mismatch_max", iteration] < 1e-3, (
            "learner and engine saw the same prompts"
        )
    lengths = set()
    for event in events(folder, "episode"):
        said = [turn["candidates"][0] for turn in event["turns"]]
        calls = sum(len(list(stretches_of(one["versions"]))) for one in said)
        lengths.add(calls)
        assert all(
            version == event["iteration"] - 1 for one in said for version in one["versions"] if version >= 0
        )
        right = "north" in said[-1]["text"].split()
        assert event["episode_return"] == (0.5**calls if right else 0.0), "the guide's discount is 0.5^t"
    assert {1, 3} <= lengths <= {1, 2, 3}, "right at once, and wrong until the last turn"


def test_missing_versions_are_those_of_the_episodes_start(little_model: Path, tmp_path: Path) -> None:
    overrides = {"workflow.path": f"{GUIDE}:WithoutVersions"}
    assert run_attempt(attempt(tmp_path / "run", little_model, **overrides), local=True) == 0
    told = events(tmp_path / "run", "episode")
    assert {event["iteration"] for event in told} == {1, 2, 3}
    for event in told:
        (turn,) = event["turns"]
        versions = set(turn["candidates"][0]["versions"]) - {-1}
        assert versions == {event["iteration"] - 1}


def test_invalid_results_fail_only_their_episode(little_model: Path, tmp_path: Path) -> None:
    overrides = {"workflow.path": f"{GUIDE}:Spoilt", "run.iterations": 2, "rollout.tasks": 4}
    assert run_attempt(attempt(tmp_path / "run", little_model, **overrides), local=True) == 0
    errors = {event["task"]: event["error"] for event in events(tmp_path / "run", "episode")}
    assert "token id 1000000 is outside the model's vocabulary" in errors["train-0"]
    assert "a reward must be a finite number, not nan" in errors["train-1"]
    assert "has version 99 of the weights" in errors["train-2"]
    assert errors["train-3"] == ""
    assert curve(tmp_path / "run")["rollout/failed", 1] == 12


def test_the_guides_agent_with_queues_trains(little_model: Path, tmp_path: Path) -> None:
    overrides = {
        "workflow.path": f"{GUIDE}:MathMultiTurnAgent",
        "workflow.environment_path": f"{GUIDE}:MathCodeSingleStepEnv",
        "workflow.args": {"num_turns": 2},
    }
    assert run_attempt(attempt(tmp_path / "run", little_model, **overrides), local=True) == 0
    values = curve(tmp_path / "run")
    assert all(values["rollout/failed", iteration] == 0 for iteration in (1, 2, 3))
    assert all(values["policy/planner/mismatch_max", iteration] < 1e-3 for iteration in (1, 2, 3))


def experiment(folder: Path, model: Path, **overrides: Any) -> Attempt:
    """The guide's `python3 training/main_async_ppo.py my_param=5.0`."""
    words = parse_overrides([f"workflow.path={EXPERIMENT}:AsyncPPOMATHConfig", "workflow.args.my_param=5.0"])
    plain = {"workflow.args": {}, "workflow.reward": {"type": "math"}, "workflow.success_at": 5.0}
    return attempt(folder, model, **plain | words | overrides)


def test_the_guides_registered_agent_and_experiment_train(little_model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert run_attempt(experiment(folder, little_model), local=True) == 0
    values = curve(folder)
    assert all(values["rollout/failed", iteration] == 0 for iteration in (1, 2, 3))
    assert all(values["policy/planner/grad_norm", iteration] > 0 for iteration in (1, 2, 3))
    assert {event["episode_return"] for event in events(folder, "episode")} == {0.0, 5.0, 10.0}, "my_param"


def test_what_is_not_registered_is_told_with_what_is(little_model: Path, tmp_path: Path) -> None:
    overrides = {"workflow.path": f"{EXPERIMENT}:Misspelt", "workflow.args": {}}
    assert run_attempt(experiment(tmp_path / "run", little_model, **overrides), local=True) == FAILED
    message = events(tmp_path / "run", "status")[-1]["message"]
    assert "no agent is registered as 'math-multi-trun' (registered: math-multi-turn)" in message


@pytest.mark.parametrize("async_training", [True, False])
def test_the_guides_training_script_runs(async_training: bool) -> None:
    """Its main function from the first to the last line, but for the names that its setup code would have made."""
    rows = [{"messages": [{"role": "user", "content": f"w{number}"}], "label": "w3"} for number in range(6)]
    batches: list[Any] = []
    gconfig = GenerationHyperparameters(max_new_tokens=4)
    config = SimpleNamespace(async_training=async_training, gconfig=gconfig)
    torch.manual_seed(0)
    roomy = LlamaForCausalLM(
        LlamaConfig(**SMALL | {"max_position_embeddings": 512}, num_key_value_heads=2)
    ).eval()
    with InferenceEngine(TorchEngine(roomy, TOKENIZER), RolloutLimits(batch=4, staleness=1)) as rollout:
        train_dataloader = cycle_dataloader(rows, 4)
        max_steps = 2
        tokenizer = workflow_tokenizer(TOKENIZER)
        # Create your custom workflow
        workflow = MultiTurnWorkflow(
            reward_fn=reward_fn, gconfig=config.gconfig, tokenizer=tokenizer, turn_discount=0.9, max_turns=5
        )

        # Run training—no other changes needed!
        data_generator = iter(train_dataloader)
        for global_step in range(max_steps):
            with stats_tracker.record_timing("rollout"):
                if config.async_training:
                    batch = rollout.prepare_batch(train_dataloader, workflow=workflow)
                else:
                    try:
                        data = next(data_generator)
                    except StopIteration:
                        data_generator = iter(train_dataloader)
                        data = next(data_generator)
                    batch = rollout.rollout_batch(data, workflow=workflow)
            rollout.set_version(global_step + 1)
            batches.append(batch)
    assert stats_tracker.export().keys() == {"timeperf/rollout"} and not stats_tracker.export()
    for batch in batches:
        assert batch["rewards"].shape == (4,)
        assert batch["input_ids"].shape == batch["loss_mask"].shape == batch["versions"].shape
        assert torch.equal(batch["logprobs"] != 0, batch["loss_mask"] == 1)


def test_a_rows_prompt_is_readable_and_not_given_twice() -> None:
    row = RowData({"prompt": "goal", "label": "x", "messages": []})
    assert row["prompt"] == row.get("prompt") == "goal" and "prompt" in row
    assert dict(**row) == {"label": "x", "messages": []}
    assert row.get("other", 3) == 3 and "other" not in row
    with pytest.raises(KeyError):
        row["other"]
    assert reward_fn(prompt="p", completions="x", prompt_ids=[], completion_ids=[], **row) == 1.0
