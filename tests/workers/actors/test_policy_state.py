"""A policy's part of a checkpoint brings back weights, optimiser and generator exactly."""

from pathlib import Path

import pytest
import torch

from training_core.errors import CheckpointError
from training_core.llm.models.loading import load_model, load_tokenizer
from workers.actors.policy_state import load_policy, save_policy


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """An optimiser step with a gradient that the generator draws."""
    for weight in model.parameters():
        weight.grad = torch.randn_like(weight)
    optimizer.step()


def test_training_goes_on_bit_by_bit(little_model: Path, tmp_path: Path) -> None:
    model, tokenizer = load_model(little_model), load_tokenizer(little_model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    step(model, optimizer)
    save_policy(tmp_path / "planner", model, tokenizer, optimizer, 5)
    step(model, optimizer)

    other = load_model(little_model)
    again = torch.optim.AdamW(other.parameters(), lr=1e-2)
    assert load_policy(tmp_path / "planner", other, again) == 5
    step(other, again)
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, other.state_dict()[name]), name


def test_a_checkpoint_is_a_model_folder(little_model: Path, tmp_path: Path) -> None:
    model, tokenizer = load_model(little_model), load_tokenizer(little_model)
    save_policy(tmp_path, model, tokenizer, torch.optim.AdamW(model.parameters()), 0)
    loaded = load_model(tmp_path)
    assert torch.equal(loaded.lm_head.weight, model.lm_head.weight)
    assert load_tokenizer(tmp_path).get_vocab() == tokenizer.get_vocab()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("model.safetensors", None, "not complete"),
        ("optimizer.safetensors", None, "not complete"),
        ("optimizer.safetensors", b"torn", "torn"),
        ("policy.json", b"{", "torn"),
    ],
)
def test_a_damaged_checkpoint_is_refused(
    name: str, content: bytes | None, said: str, little_model: Path, tmp_path: Path
) -> None:
    model, tokenizer = load_model(little_model), load_tokenizer(little_model)
    optimizer = torch.optim.AdamW(model.parameters())
    step(model, optimizer)
    save_policy(tmp_path, model, tokenizer, optimizer, 1)
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=said):
        load_policy(tmp_path, model, optimizer)
