"""Sampling and learning under a grammar, on five tokens: an end token and the letters a to d."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from tests.training_core.llm.toys import SMALL
from training_core.algorithms.config import AtGrpo
from training_core.config.models import Policy
from training_core.errors import EngineFailure, RequestRefused
from training_core.llm.generation.base import SamplingSettings, generate_until_ended
from training_core.llm.generation.grammars import Grammars, answer_masks, check_grammar, json_grammar
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.llm.learning.learner import Learner
from training_core.llm.serving.sequences import joined_answers
from training_core.types import Answer, GrammarSpan, Group, NoiseKey, Prompt

END, A, B, C, D = range(5)
GRAMMAR = 'start: "a" ("b" | "c")+\n'
SETTINGS = SamplingSettings(max_tokens=6)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    letters = Tokenizer(models.BPE(vocab={"<end>": END, "a": A, "b": B, "c": C, "d": D}, merges=[]))
    letters.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=letters, eos_token="<end>", pad_token="<end>")


@pytest.fixture
def model() -> PreTrainedModel:
    torch.manual_seed(1)
    model = LlamaForCausalLM(
        LlamaConfig(**SMALL | {"vocab_size": 5, "eos_token_id": END, "pad_token_id": END})
    )
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(6.0)
    return model.eval()


def prompts(grammar: str) -> list[Prompt]:
    return [Prompt([A, D, task + 1], 8, NoiseKey(0, 0, 1, task, 0, 0), grammar=grammar) for task in range(3)]


def naive_logprobs(model: PreTrainedModel, prompt: list[int], answer: list[int]) -> list[float]:
    """By the rule of GRAMMAR itself: first a, then b or c, and an end after the first of these."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
    allowed = [[A], [B, C], *[[B, C, END]] * len(answer)]
    return [
        float(row[token] - row[choices].logsumexp(0))
        for row, token, choices in zip(logits, answer, allowed, strict=False)
    ]


@pytest.mark.parametrize("static", [False, True])
def test_answers_follow_the_grammar_with_the_logprobs_of_its_distribution(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, static: bool
) -> None:
    engine = TorchEngine(model, tokenizer, static=static)
    free = Prompt([A, D, 1], 8, NoiseKey(0, 0, 1, 0, 0, 0))
    *constrained, unconstrained = engine.generate([*prompts(GRAMMAR), free], SETTINGS)
    ends = set()
    for prompt, answers in zip(prompts(GRAMMAR), constrained, strict=True):
        for answer in answers:
            assert answer.text[0] == "a" and set(answer.text[1:]) <= {"b", "c"}
            ends.add(answer.token_ids[-1])
            assert answer.logprobs == pytest.approx(
                naive_logprobs(model, prompt.token_ids, answer.token_ids), abs=1e-5
            )
            assert answer.grammars == (GrammarSpan(0, len(answer.token_ids), GRAMMAR),)
    assert END in ends and ends & {B, C}, "some answers end, others are cut"
    assert any("d" in answer.text or answer.text[:1] != "a" for answer in unconstrained)


def test_an_interrupted_answer_continues_in_its_grammar(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast
) -> None:
    engine, calls = TorchEngine(model, tokenizer), iter(range(1000))
    whole = engine.generate(prompts(GRAMMAR), SETTINGS)
    joined = generate_until_ended(
        prompts(GRAMMAR), lambda some: engine.generate(some, SETTINGS, lambda: next(calls) % 3 == 2)
    )
    assert [[answer.token_ids for answer in group] for group in joined] == [
        [answer.token_ids for answer in group] for group in whole
    ]
    assert joined[0][0].grammars == whole[0][0].grammars


def test_masks_of_joined_calls_are_at_their_tokens(tokenizer: PreTrainedTokenizerFast) -> None:
    free = Answer([D, D], [-1.0] * 2, [0] * 2, "stop", "")
    under = Answer([A, C, END], [-1.0] * 3, [0] * 3, "stop", "", grammars=(GrammarSpan(0, 3, GRAMMAR),))
    joined = joined_answers([([A], free), ([A, D, D, B], under)])
    masks = answer_masks(joined, Grammars(tokenizer, 6, [END]))
    assert joined.grammars == (GrammarSpan(3, 6, GRAMMAR),) and masks is not None
    assert [np.flatnonzero(mask).tolist() for mask in masks] == [
        [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5], [A], [B, C], [END, B, C],
    ]  # fmt: skip


def test_tokens_that_break_the_grammar_are_refused(tokenizer: PreTrainedTokenizerFast) -> None:
    answer = Answer([A, D], [-1.0] * 2, [0] * 2, "stop", "", grammars=(GrammarSpan(0, 2, GRAMMAR),))
    with pytest.raises(EngineFailure):
        answer_masks(answer, Grammars(tokenizer, 5, [END]))


def test_a_schema_that_is_none_is_refused() -> None:
    check_grammar(json_grammar({"type": "object", "properties": {"x": {"type": "integer"}}}))
    with pytest.raises(RequestRefused):
        check_grammar(json_grammar({"type": "nonsense"}))


@pytest.mark.parametrize("packing", [True, False])
def test_ratios_of_fresh_data_are_one(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, packing: bool, tmp_path: Path
) -> None:
    """The learner masks what the engine masked: in an answer from its beginning, in a joined one behind another text."""
    tokenizer.save_pretrained(tmp_path)
    model.name_or_path = str(tmp_path)
    settings = SamplingSettings(temperature=0.7, top_k=2, max_tokens=6)
    groups = []
    for prompt, answers in zip(
        prompts(GRAMMAR), TorchEngine(model, tokenizer).generate(prompts(GRAMMAR), settings), strict=True
    ):
        longer = [
            joined_answers(
                [(prompt.token_ids[:1], Answer([], [], [], "stop", "")), (prompt.token_ids, answer)]
            )
            for answer in answers
        ]
        advantages = [float(number % 2) for number in range(len(answers))]
        for start, some in ((prompt.token_ids, answers), (prompt.token_ids[:1], longer)):
            groups.append(
                Group(f"e{prompt.key.task}", len(groups), start, some, advantages, advantages, 0.7, 2, 1.0)
            )
    policy = Policy.model_validate(
        {"model": "tiny", "learner": {"packing": packing, "learning_rate": 0.0001}}
    )
    metrics = Learner(policy, AtGrpo(), model, 10).update(groups, 1, 0).metrics
    assert metrics["mismatch_max"] < 1e-4
    free = [
        replace(group, answers=[replace(answer, grammars=()) for answer in group.answers]) for group in groups
    ]
    assert Learner(policy, AtGrpo(), model, 10).update(free, 1, 0).metrics["mismatch_max"] > 0.1
