"""The torch engine against a loop without cache, padding or batch."""

import pytest
import torch
from transformers import PreTrainedModel

from tests.training_core.llm.toys import TOKENIZER, make_model
from training_core.errors import EngineFailure
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.sampling import draw, tempered_log_probs
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.seeding import keyed_uniform
from training_core.types import NoiseKey, Prompt

EOS = TOKENIZER.eos_token_id
PROMPTS = [
    Prompt([6, 7, 8, 9, 10], 5, NoiseKey(0, 0, 1, 0, 0, 0)),
    Prompt([11, 12], 3, NoiseKey(0, 0, 1, 1, 0, 0)),
    Prompt([20, 6, 9, 9, 14, 15, 16, 8], 6, NoiseKey(0, 0, 1, 2, 0, 1)),
    Prompt([25], 4, NoiseKey(3, 0, 1, 2, 0, 1)),
]


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return make_model()


@torch.no_grad()
def naive_answer(
    model: PreTrainedModel, prompt: Prompt, candidate: int, settings: SamplingSettings
) -> tuple[list[int], list[float]]:
    """One answer, one token at a time, the whole sequence through the model each time."""
    tokens: list[int] = []
    logprobs: list[float] = []
    while len(tokens) < settings.max_tokens and (not tokens or tokens[-1] != EOS):
        logits = model(input_ids=torch.tensor([prompt.token_ids + tokens])).logits[0, -1]
        spread = tempered_log_probs(logits, settings.temperature, settings.top_k, settings.top_p)
        if settings.greedy:
            token = int(spread.argmax())
        else:
            number = keyed_uniform(*prompt.key, candidate, len(tokens))
            cumulative = spread.double().exp().cumsum(0)
            token = int((cumulative <= number * cumulative[-1]).sum())
        tokens.append(token)
        logprobs.append(spread[token].item())
    return tokens, logprobs


@pytest.mark.parametrize(
    "settings",
    [
        SamplingSettings(max_tokens=7),
        SamplingSettings(temperature=0.7, top_p=0.9, max_tokens=7),
        SamplingSettings(temperature=1.3, top_k=5, max_tokens=7),
        SamplingSettings(max_tokens=7, greedy=True),
    ],
)
def test_it_says_what_a_naive_loop_says(model: PreTrainedModel, settings: SamplingSettings) -> None:
    answers = TorchEngine(model, TOKENIZER, version=3).generate(PROMPTS, settings)
    assert [len(group) for group in answers] == [5, 3, 6, 4]
    stopped = 0
    for prompt, group in zip(PROMPTS, answers, strict=True):
        for candidate, answer in enumerate(group):
            tokens, logprobs = naive_answer(model, prompt, candidate, settings)
            assert answer.token_ids == tokens
            assert answer.logprobs == pytest.approx(logprobs, abs=1e-5)
            assert answer.versions == [3] * len(tokens)
            assert answer.stop_reason == ("stop" if tokens[-1] == EOS else "length")
            stopped += answer.stop_reason == "stop"
    assert settings.greedy or 0 < stopped < 18, "both ways to end must be tried"


def test_neither_order_nor_company_nor_batch_size_matter(model: PreTrainedModel) -> None:
    settings = SamplingSettings(max_tokens=6)
    together = TorchEngine(model, TOKENIZER).generate(PROMPTS, settings)
    backwards = TorchEngine(model, TOKENIZER).generate(PROMPTS[::-1], settings)[::-1]
    small = TorchEngine(model, TOKENIZER, max_batch=4).generate(PROMPTS, settings)
    tokens = [[answer.token_ids for answer in group] for group in together]
    assert [[answer.token_ids for answer in group] for group in backwards] == tokens
    assert [[answer.token_ids for answer in group] for group in small] == tokens


def test_candidates_of_a_group_differ(model: PreTrainedModel) -> None:
    group = TorchEngine(model, TOKENIZER).generate(PROMPTS[:1], SamplingSettings(max_tokens=6))[0]
    assert len({tuple(answer.token_ids) for answer in group}) > 1


def test_new_weights_change_what_it_says_and_its_version(model: PreTrainedModel) -> None:
    engine, other = TorchEngine(make_model(), TOKENIZER), make_model(seed=1)
    engine.load_weights(other.state_dict(), 4)
    said = engine.generate(PROMPTS, SamplingSettings(max_tokens=4))
    assert [[a.token_ids for a in g] for g in said] == [
        [a.token_ids for a in g]
        for g in TorchEngine(other, TOKENIZER).generate(PROMPTS, SamplingSettings(max_tokens=4))
    ]
    assert said[0][0].versions[0] == 4


def test_what_cannot_be_generated_is_refused_in_words(model: PreTrainedModel) -> None:
    engine = TorchEngine(model, TOKENIZER)
    with pytest.raises(EngineFailure, match="60 tokens and 8 new ones exceed the model's context of 64"):
        engine.generate([Prompt([6] * 60, 1, NoiseKey(0, 0, 0, 0, 0, 0))], SamplingSettings(max_tokens=8))
    with pytest.raises(EngineFailure, match="empty"):
        engine.generate([Prompt([], 1, NoiseKey(0, 0, 0, 0, 0, 0))], SamplingSettings())
    with pytest.raises(EngineFailure, match="weights of version 2 do not fit"):
        engine.load_weights({"nothing": torch.zeros(1)}, 2)


def test_truncation_by_hand() -> None:
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    assert tempered_log_probs(logits, 1.0, top_k=2).exp().tolist() == pytest.approx(
        [0.625, 0.375, 0, 0], abs=1e-6
    )
    assert tempered_log_probs(logits, 1.0, top_p=0.6).exp().tolist() == pytest.approx(
        [0.625, 0.375, 0, 0], abs=1e-6
    )
    assert tempered_log_probs(logits, 1.0, top_p=0.4).exp().tolist() == pytest.approx([1, 0, 0, 0], abs=1e-6)
    squared = torch.tensor([0.25, 0.09, 0.0225, 0.0025])
    assert tempered_log_probs(logits, 0.5).exp().tolist() == pytest.approx(
        (squared / squared.sum()).tolist(), abs=1e-6
    )


def test_draws_invert_the_cumulative_distribution_and_never_take_what_is_cut() -> None:
    log_probs = torch.tensor([[0.0, 0.2, 0.0, 0.8]]).log().expand(5, 4)
    assert draw(
        log_probs, torch.arange(5), torch.tensor([0.0, 0.1999, 0.2001, 0.5, 0.9999999], dtype=torch.float64)
    ).tolist() == [1, 1, 3, 3, 3]
