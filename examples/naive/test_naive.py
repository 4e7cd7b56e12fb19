"""naive: the torch engine's answers, token for token."""

import pytest

from examples.naive.config import Naive
from examples.naive.naive import NaiveEngine
from tests.training_core.llm.toys import TOKENIZER, make_model
from training_core.llm.generation.base import SamplingSettings, make_engine
from training_core.llm.generation.engine_config import Torch
from training_core.types import NoiseKey, Prompt


def test_answers_are_those_of_the_torch_engine() -> None:
    prompts = [Prompt([6, 7, 8], 3, NoiseKey(0, 0, 1, 0, 0, 0)), Prompt([9], 2, NoiseKey(0, 0, 1, 1, 0, 0))]
    settings = SamplingSettings(temperature=0.8, top_k=9, max_tokens=6)
    engines = [
        NaiveEngine(Naive(max_batch=2), make_model(), TOKENIZER),
        make_engine(Torch(), make_model(), TOKENIZER),
    ]
    ours, theirs = (engine.generate(prompts, settings) for engine in engines)
    for one, other in zip(sum(ours, []), sum(theirs, []), strict=True):
        assert (one.token_ids, one.text, one.stop_reason) == (other.token_ids, other.text, other.stop_reason)
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
