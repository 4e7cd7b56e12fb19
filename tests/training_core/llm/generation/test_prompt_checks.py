"""Prompts that no model can read are refused before anything is generated, by every engine alike."""

import pickle
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tests.training_core.llm.toys import TOKENIZER, make_model
from training_core.errors import PromptRefused, PromptTooLong
from training_core.llm.generation.base import (
    NO_ROOM,
    SamplingSettings,
    continuation_prompt,
    generate_fitting,
    join_answers,
)
from training_core.llm.generation.engine_config import OpenAi
from training_core.llm.generation.openai_engine import OpenAiEngine
from training_core.llm.generation.prompt_checks import check_ids
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.types import NoiseKey, Prompt

KEY = NoiseKey(0, 0, 1, 0, 0, 0)
WRONG: list[Any] = [
    [99_999_999], [-1], [2**63], [10**400], [True], [1.0], ["1"], [None], [[5], [6]], [[5], 6], [6, [7, [8]]], [6, {}],
]  # fmt: skip
"""Ids outside the vocabulary, and what is no list of ids."""


def engines() -> list[Any]:
    nowhere = OpenAi(urls=("http://127.0.0.1:9",), model="toy")
    return [TorchEngine(make_model(), TOKENIZER), OpenAiEngine(nowhere, make_model(), TOKENIZER)]


@pytest.mark.parametrize("ids", WRONG, ids=lambda ids: repr(ids)[:30])
def test_engines_refuse_ids_outside_the_vocabulary(ids: Any) -> None:
    for engine in engines():
        with pytest.raises(PromptRefused, match="token id"):
            engine.generate([Prompt([6, 7], 1, KEY), Prompt(ids, 1, KEY)], SamplingSettings(max_tokens=2))


def test_answers_get_what_a_prompt_leaves_of_the_context() -> None:
    """Of 64 tokens: in one batch with a prompt that leaves room for max_tokens, and in the continuation of an answer."""
    engine = TorchEngine(make_model(), TOKENIZER)
    engine.stops = engine.stops[:0]
    long, short = Prompt([6, 7] * 30, 2, KEY), Prompt([6, 7], 1, KEY)
    first, second = engine.generate([long, short], SamplingSettings(max_tokens=8))
    assert [len(answer.token_ids) for answer in first + second] == [4, 4, 8]
    assert {answer.stop_reason for answer in first} == {"length"}
    (begun,) = engine.generate([replace(long, count=1)], SamplingSettings(max_tokens=3))[0]
    continued = continuation_prompt(long, 0, begun)
    ((rest,),) = engine.generate([continued], SamplingSettings(max_tokens=8))
    assert join_answers(begun, rest).token_ids == first[0].token_ids
    with pytest.raises(PromptRefused, match="already has 4 of at most 4 tokens"):
        engine.generate([continuation_prompt(long, 0, first[0])], SamplingSettings(max_tokens=8))


def test_prompts_without_room_do_not_keep_others_from_being_answered() -> None:
    """Of 64 tokens: the second and the last prompt leave none."""
    engine = TorchEngine(make_model(), TOKENIZER)
    settings = SamplingSettings(max_tokens=4)
    full, short = Prompt([6] * 64, 2, KEY), Prompt([6, 7], 3, KEY)
    with pytest.raises(PromptTooLong) as refused:
        engine.generate([short, full, short, replace(full, token_ids=[6] * 99)], settings)
    assert pickle.loads(pickle.dumps(refused.value)).numbers == (1, 3)
    answers = generate_fitting([short, full, short], partial(engine.generate, settings=settings))
    assert answers == [
        *engine.generate([short], settings),
        [NO_ROOM] * 2,
        *engine.generate([short], settings),
    ]
    assert all(answer.had_no_room for answer in answers[1]) and not any(
        each.had_no_room for each in answers[0]
    )
    assert generate_fitting([full], partial(engine.generate, settings=settings)) == [[NO_ROOM] * 2]


def test_ids_up_to_the_embeddings_last_row_are_taken() -> None:
    model = make_model()
    rows = model.get_input_embeddings().num_embeddings
    check_ids([0, rows - 1], rows)
    with pytest.raises(PromptRefused, match=f"token id {rows} is outside the model's vocabulary of {rows}"):
        check_ids([0, rows], rows)
    ((answer,),) = TorchEngine(model, TOKENIZER).generate(
        [Prompt([rows - 1], 1, KEY)], SamplingSettings(max_tokens=2)
    )
    assert answer.token_ids


def test_an_error_in_the_middle_leaves_the_model_in_its_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model().train()
    engine = TorchEngine(model, TOKENIZER)

    def broken(*arguments: Any) -> Any:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(engine, "_sample", broken)
    with pytest.raises(RuntimeError, match="out of memory"):
        engine.generate([Prompt([6], 1, KEY)], SamplingSettings(max_tokens=2))
    assert model.training
