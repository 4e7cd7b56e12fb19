"""Prompts that no model can read are refused before anything is generated, by every engine alike."""

from typing import Any

import pytest

from tests.training_core.llm.toys import TOKENIZER, make_model
from training_core.errors import PromptRefused
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.openai.config import OpenAi
from training_core.llm.generation.openai.engine import OpenAiEngine
from training_core.llm.generation.prompt_checks import check_ids
from training_core.llm.generation.torch.engine import TorchEngine
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
