"""Trajectories by hand: padding, prompts and masks, calls that continue one another."""

import pytest
import torch

from training_core.errors import EnvironmentFailure
from training_core.llm.rollout_workflows.api import GenerationHyperparameters, Interaction, ModelResponse
from training_core.llm.rollout_workflows.tensors import concat_padded_tensors, token_sequences_of
from training_core.types import NOT_SAMPLED, Answer


def said(asked: list[int], answered: list[int], version: int = 0) -> ModelResponse:
    return ModelResponse(asked, answered, [-0.5] * len(answered), [version] * len(answered), "stop")


def test_padding_is_on_the_right_and_unseen() -> None:
    short = {
        "input_ids": torch.tensor([[5, 6]]),
        "attention_mask": torch.tensor([[1, 1]]),
        "rewards": torch.tensor([1.0]),
    }
    long = {
        "input_ids": torch.tensor([[7, 8, 9]]),
        "attention_mask": torch.tensor([[1, 1, 1]]),
        "rewards": torch.tensor([2.0]),
    }
    batch = concat_padded_tensors([short, long], pad=4)
    assert batch["input_ids"].tolist() == [[5, 6, 4], [7, 8, 9]]
    assert batch["attention_mask"].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert batch["rewards"].tolist() == [1.0, 2.0]
    assert concat_padded_tensors([]) == {}
    with pytest.raises(ValueError, match="different keys"):
        concat_padded_tensors([short, {"attention_mask": torch.tensor([[1]])}])


def test_the_prompt_ends_where_learning_begins() -> None:
    result = {
        "input_ids": torch.tensor([[5, 6, 7, 8, 9, 0]]),
        "attention_mask": torch.tensor([[1, 1, 1, 1, 1, 0]]),
        "loss_mask": torch.tensor([[0, 0, 1, 0, 1, 0]]),
        "logprobs": torch.tensor([[0.0, 0.0, -1.0, 0.0, -2.0, 0.0]]),
        "rewards": torch.tensor([0.9]),
    }
    ((prompt, answer, reward, role),) = token_sequences_of(result, 3)
    assert (prompt, role) == ([5, 6], "") and reward == pytest.approx(0.9)
    assert answer == Answer(
        [7, 8, 9], [-1.0, 0.0, -2.0], [3, NOT_SAMPLED, 3], "stop", "", [True, False, True]
    )


def test_what_is_missing_is_named() -> None:
    with pytest.raises(EnvironmentFailure, match="without attention_mask, loss_mask, logprobs, rewards"):
        token_sequences_of({"input_ids": torch.tensor([[5]])}, 0)
    whole = {name: torch.ones(1, 2) for name in ("input_ids", "attention_mask", "loss_mask", "logprobs")}
    with pytest.raises(EnvironmentFailure, match="without a prompt"):
        token_sequences_of(whole | {"rewards": torch.ones(1)}, 0)
    with pytest.raises(EnvironmentFailure, match="tensors, interactions, or None"):
        token_sequences_of([1.0], 0)  # type: ignore[list-item]


def test_calls_that_continue_one_another_are_one_sequence() -> None:
    calls = [
        Interaction(said([5, 6], [7, 8]), 0.25),
        Interaction(said([5, 6, 7, 8, 9], [10], version=1), 1.0),
        Interaction(said([5, 9], [11]), 0.5),
    ]
    first, second = token_sequences_of(calls, 0)
    assert first[:1] == ([5, 6],) and first[2:] == (1.25, "")
    assert first[1].token_ids == [7, 8, 9, 10]
    assert first[1].loss_mask == [True, True, False, True]
    assert first[1].versions == [0, 0, NOT_SAMPLED, 1]
    assert second[0] == [5, 9] and second[2] == 0.5


def test_roles_have_sequences_of_their_own() -> None:
    calls = {
        "a": Interaction(said([5], [6]), 1.0, "planner"),
        "b": Interaction(said([7], [8]), 0.0, "executor"),
        "c": Interaction(said([5, 6, 9], [10]), 1.0, "planner"),
    }
    found = {
        role: (prompt, answer.token_ids, reward)
        for prompt, answer, reward, role in token_sequences_of(calls, 0)
    }
    assert found == {"planner": ([5], [6, 9, 10], 2.0), "executor": ([7], [8], 0.0)}
    again = [*calls.values(), Interaction(said([5, 9], [11]), 0.0, "planner")]
    assert [(role, prompt) for prompt, _, _, role in token_sequences_of(again, 0)] == [
        ("planner", [5]),
        ("planner", [5, 9]),
        ("executor", [7]),
    ], "open sequences are in the order in which their roles first spoke"


def test_a_rejected_episode_has_none() -> None:
    assert token_sequences_of(None, 0) == []


def test_settings_are_changed_by_name() -> None:
    assert GenerationHyperparameters(max_new_tokens=3).new(n_samples=2) == GenerationHyperparameters(2, 3)
