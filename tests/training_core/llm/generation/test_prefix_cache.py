"""ConversationCache that go on: what was computed is used again, and changes nothing that is said."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from transformers import PreTrainedModel

from tests.training_core.llm.toys import TOKENIZER, make_model
from training_core.llm.generation.base import SamplingSettings, generate_until_ended
from training_core.llm.generation.prefix_cache import SHORTEST, ConversationCache, Layers, shared_prefixes
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.types import Answer, NoiseKey, Prompt

SETTINGS = SamplingSettings(temperature=0.8, max_tokens=5)


@pytest.fixture(scope="module", params=["llama", "qwen2", "gpt_neox"])
def model(request: pytest.FixtureRequest) -> PreTrainedModel:
    return make_model(request.param)


def talk(engine: TorchEngine, rid: str) -> list[list[Answer]]:
    """Three turns in three conversations at once, of different lengths; a prompt without a name is among them."""
    texts = [[6, 7, 8, 9, 10, 11, 12], [13, 14], [6, 7, 8]]
    said: list[list[Answer]] = []
    for turn in range(3):
        prompts = [
            Prompt(
                text, 1, NoiseKey(0, 0, 1, place, turn, 0), rid=f"{rid}{place}" if rid and place < 2 else ""
            )
            for place, text in enumerate(texts)
        ]
        said.append([answer for (answer,) in engine.generate(prompts, SETTINGS)])
        texts = [
            text + answer.token_ids + [20 + turn] * (place + 1)
            for place, (text, answer) in enumerate(zip(texts, said[-1], strict=True))
        ]
    return said


def check_equal(result: list[list[Answer]], expected: list[list[Answer]]) -> None:
    for some, others in zip(result, expected, strict=True):
        for one, other in zip(some, others, strict=True):
            assert one.token_ids == other.token_ids and one.text == other.text
            assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)


def test_turns_that_go_on_compute_what_is_new_alone(model: PreTrainedModel, passes: list[int]) -> None:
    engine = TorchEngine(model, TOKENIZER)
    talk(engine, "")  # which tries what the model can do
    passes.clear()
    plain = talk(engine, "")
    without = sum(passes)
    assert engine.conversations.reused == 0 and engine.conversations.size == 0
    passes.clear()
    check_equal(talk(engine, "a"), plain)
    assert engine.conversations.reused > 30 and sum(passes) == without - engine.conversations.reused


def test_a_group_goes_on_from_the_candidate_that_it_follows(model: PreTrainedModel) -> None:
    engine, plain = TorchEngine(model, TOKENIZER), TorchEngine(model, TOKENIZER, cache_bytes=0)
    first = Prompt([6, 7, 8, 9], 4, NoiseKey(0, 0, 1, 0, 0, 0), rid="tree")
    answers = engine.generate([first], SETTINGS)[0]
    chosen = max(answers, key=lambda answer: len(answer.token_ids))
    second = Prompt([6, 7, 8, 9, *chosen.token_ids, 21], 4, NoiseKey(0, 0, 1, 0, 1, 0), rid="tree")
    check_equal(engine.generate([second], SETTINGS), plain.generate([second], SETTINGS))
    assert engine.conversations.reused == 4 + len(chosen.token_ids) - 1, "the last token was never computed"


def test_interrupted_answers_go_on_where_they_were(model: PreTrainedModel, passes: list[int]) -> None:
    engine = TorchEngine(model, TOKENIZER, max_batch=8)
    prompts = [
        Prompt([6, 7, 8, 9, 10 + task], 3, NoiseKey(0, 0, 1, task, 0, 0), rid=str(task)) for task in (0, 1)
    ]
    whole = engine.generate(prompts, SETTINGS)
    engine.conversations.clear()

    def say(some: list[Prompt]) -> list[list[Answer]]:
        return engine.generate(some, SETTINGS, after(2))

    passes.clear()
    check_equal(generate_until_ended(prompts, say), whole)  # type: ignore[arg-type]  # a list is a sequence
    assert max(passes[1:]) <= 6, (
        "no prompt is computed again: one node a candidate, in every pass but the first"
    )


def after(steps: int) -> Callable[[], bool]:
    """True from this many tokens on."""
    asked = iter(range(100))
    return lambda: next(asked) >= steps


def test_new_weights_drop_what_old_ones_computed() -> None:
    engine, newer = TorchEngine(make_model(), TOKENIZER, version=1), make_model(seed=1)
    prompt = Prompt([6, 7, 8, 9], 1, NoiseKey(0, 0, 1, 0, 0, 0), rid="one")
    (before,) = engine.generate([prompt], SETTINGS)[0]
    on = replace(prompt, token_ids=[*prompt.token_ids, *before.token_ids, 21])
    expected = TorchEngine(newer, TOKENIZER, version=2).generate([replace(on, rid="")], SETTINGS)
    engine.load_weights(newer.state_dict(), 2)
    check_equal(engine.generate([on], SETTINGS), expected)
    assert engine.conversations.reused == 0
    # A learner in the same process changes the weights in place and says so by the version alone.
    engine.version = 3
    engine.generate([on], SETTINGS)
    assert engine.conversations.reused == 0
    engine.generate([on], SETTINGS)
    assert engine.conversations.reused == len(on.token_ids) - 1


def layers(tokens: int) -> Layers:
    """64 bytes a token."""
    return [(torch.ones(2, tokens, 4), torch.ones(2, tokens, 4))]


def test_who_was_asked_for_longest_ago_makes_room() -> None:
    cache = ConversationCache(64 * 10)
    cache.store(("a", 0), [1, 2, 3, 4, 99], lambda: layers(4))
    cache.store(("b", 0), [5, 6, 7, 8], lambda: layers(4))
    assert cache.lookup([("a", 0)], [1, 2, 3, 4, 5]) and cache.size == 64 * 8
    cache.store(("c", 0), [1, 9], lambda: layers(2))
    assert cache.size == 64 * 10
    cache.store(("d", 0), [1], lambda: layers(1))
    assert cache.lookup([("b", 0)], [5, 6]) is None and cache.size == 64 * 7
    cache.store(("e", 0), list(range(11)), lambda: layers(11))
    assert cache.lookup([("e", 0)], list(range(11))) is None, "larger than everything that the cache may hold"
    cache.store(("a", 0), [1], lambda: layers(1))
    assert cache.size == 64 * 4, "in place of what it was"


def test_only_a_common_prefix_is_reused_without_the_last_token() -> None:
    cache = ConversationCache(10**6)
    cache.store(("a", 0), [1, 2, 3, 4], lambda: layers(4))
    cache.store(("a", 1), [1, 2, 7], lambda: layers(3))
    result = cache.lookup([("a", 0), ("a", 1)], [1, 2, 7, 8])
    assert result and result.tokens == (1, 2, 7) and result.layers[0][0].shape == (2, 3, 4)
    result = cache.lookup([("a", 0)], [1, 2, 3, 4])
    assert result and result.tokens == (1, 2, 3)
    assert cache.lookup([("a", 0)], [9, 2, 3]) is None and cache.lookup([("a", 0)], [1]) is None
    assert cache.reused == 6


FIRST = tuple(range(SHORTEST))
SECOND = tuple(range(1, SHORTEST + 1))


def test_texts_that_begin_alike_share_the_longest_beginning_that_all_have() -> None:
    texts = [(*FIRST, 1, 2, 3), (*FIRST, 1, 2, 4), (*FIRST, 1, 9), (*SECOND, 5), (*SECOND, 6, 7), (7, 8)]
    shared = shared_prefixes(texts)
    assert shared == dict.fromkeys(texts[:3], (*FIRST, 1)) | dict.fromkeys(texts[3:5], SECOND)


def test_a_text_keeps_its_last_token() -> None:
    texts = [(*FIRST, 1), (*FIRST, 1, 2)]
    assert set(shared_prefixes(texts).values()) == {FIRST}


def test_alone_short_or_equal_texts_share_nothing() -> None:
    assert shared_prefixes([(*FIRST, 1), (*FIRST, 1), (*SECOND, 1), FIRST, FIRST[:-1]]) == {}
