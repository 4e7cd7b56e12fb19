"""Steps of fixed shapes say what steps of any shape say, and read the same memory each time."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from tests.training_core.llm.allocations import bytes_in_use
from tests.training_core.llm.toys import TOKENIZER, make_model
from tests.training_core.llm.waits import record_waits
from training_core.llm.generation.base import SamplingSettings, generate_until_ended
from training_core.llm.generation.prefix_tree import DecodingStep, PrefixTreeStore, bucket
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.llm.models.flops import shape_of
from training_core.llm.models.transfers import Reading, free_memory
from training_core.types import Answer, NoiseKey, Prompt

PROMPTS = [
    Prompt([6, 7, 8, 9, 10], 5, NoiseKey(0, 0, 1, 0, 0, 0), rid="a"),
    Prompt([11, 12], 3, NoiseKey(0, 0, 1, 1, 0, 0)),
    Prompt([20, 6, 9, 9, 14, 15, 16, 8], 6, NoiseKey(0, 0, 1, 2, 0, 1)),
    Prompt([25], 4, NoiseKey(3, 0, 1, 2, 0, 1), rid="b"),
]
SETTINGS = [
    SamplingSettings(max_tokens=40),
    SamplingSettings(temperature=0.7, top_p=0.9, max_tokens=9),
    SamplingSettings(max_tokens=9, greedy=True),
    SamplingSettings(max_tokens=9, stop=("b c",)),
]


@pytest.fixture(scope="module", params=["llama", "qwen2", "gpt_neox"])
def model(request: pytest.FixtureRequest) -> PreTrainedModel:
    return make_model(request.param)


def check_equal(result: list[list[Answer]], expected: list[list[Answer]]) -> None:
    for one, other in zip(itertools.chain(*result), itertools.chain(*expected), strict=True):
        assert replace(one, logprobs=[]) == replace(other, logprobs=[])
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("max_batch", [512, 5])
def test_they_say_the_same_whatever_was_said_before(model: PreTrainedModel, max_batch: int) -> None:
    """One engine for all calls: its store and buffers hold what earlier calls left. Small batches let others take places."""
    static = TorchEngine(model, TOKENIZER, max_batch=max_batch, static=True)
    for settings in SETTINGS:
        expected = TorchEngine(model, TOKENIZER, max_batch=max_batch, static=False).generate(
            PROMPTS, settings
        )
        check_equal(static.generate(PROMPTS, settings), expected)
        check_equal(static.generate(PROMPTS[:1], settings), expected[:1])
    assert static.conversations.reused > 0


def test_interrupted_answers_go_on(model: PreTrainedModel) -> None:
    static = TorchEngine(model, TOKENIZER, static=True)
    asked = itertools.count()
    said = generate_until_ended(
        PROMPTS, lambda some: static.generate(some, SETTINGS[0], lambda: next(asked) % 4 == 3)
    )
    check_equal(said, TorchEngine(model, TOKENIZER).generate(PROMPTS, SETTINGS[0]))


def test_a_shape_has_buffers_that_stay_and_shapes_are_few(
    model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    steps = 0
    run = PrefixTreeStore._run

    def watched(store: PrefixTreeStore, step: DecodingStep) -> torch.Tensor:
        nonlocal steps
        steps += 1
        places = tuple(part.data_ptr() for part in (*vars(step).values(), *store._layers[0]))
        seen.setdefault(step.shape, set()).add(places)
        return run(store, step)

    monkeypatch.setattr(PrefixTreeStore, "_run", watched)
    engine = TorchEngine(model, TOKENIZER, static=True)
    engine._supports_trees()
    if shape_of(model.config) is None:  # of a model of unknown sizes the store grows with the first call
        engine.generate(PROMPTS, SETTINGS[0])
    seen.clear()
    steps = 0
    for _ in range(3):
        engine.generate(PROMPTS, SETTINGS[0])
    assert all(len(places) == 1 for places in seen.values()), "a graph would read and write the same memory"
    assert 3 < len(seen) < steps / 5
    assert all(size & (size - 1) == 0 for shape in seen for size in shape[:3])


def test_a_large_store_grows_as_it_is_needed(model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = TorchEngine(model, TOKENIZER).generate(PROMPTS, SETTINGS[0])
    monkeypatch.setattr("training_core.llm.generation.torch_engine._RESERVED_ON_CPU", 1)
    check_equal(TorchEngine(model, TOKENIZER, static=True).generate(PROMPTS, SETTINGS[0]), expected)


@pytest.mark.parametrize("model", ["qwen2"], indirect=True)
def test_a_released_store_takes_no_memory_until_the_next_call(model: PreTrainedModel) -> None:
    engine = TorchEngine(model, TOKENIZER, static=True)
    engine._supports_trees()
    before = bytes_in_use()
    expected = engine.generate(PROMPTS, SETTINGS[0])
    (store,) = engine._idle_stores
    stored = sum(part.nbytes for pair in store._layers for part in pair)
    del store
    assert bytes_in_use() - before > stored > 100_000
    engine.release_stores()
    assert bytes_in_use() == before
    check_equal(engine.generate(PROMPTS, SETTINGS[0]), expected)


def test_memory_that_torch_has_reserved_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = {"mem_get_info": (5, 80), "memory_reserved": 40, "memory_allocated": 30}
    for name, number in numbers.items():
        monkeypatch.setattr(torch.cuda, name, lambda device, number=number: number)
    assert free_memory(torch.device("cuda")) == 5 + 10


@pytest.mark.parametrize("settings", SETTINGS[:3])
def test_the_next_step_starts_before_its_tokens_are_read(
    model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch, settings: SamplingSettings
) -> None:
    """From a draw to the end of the next step's start nothing waits; then its tokens are read."""
    found, recording = record_waits(monkeypatch)
    order: list[str] = []
    decode, sample, wait = PrefixTreeStore.decode, TorchEngine._sample, Reading.wait

    def watched(store: PrefixTreeStore, parents: Any, tokens: Any) -> Any:
        order.append("decode")
        with recording():
            return decode(store, parents, tokens)

    def sampled(*args: Any) -> Any:
        order.append("sample")
        with recording():
            return sample(*args)

    def read(reading: Reading) -> Any:
        order.append("read")
        return wait(reading)

    monkeypatch.setattr(PrefixTreeStore, "decode", watched)
    monkeypatch.setattr(TorchEngine, "_sample", sampled)
    monkeypatch.setattr(Reading, "wait", read)
    engine = TorchEngine(model, TOKENIZER, static=True, cache_bytes=0)
    engine._supports_trees()
    order.clear()
    found.clear()
    engine.generate(PROMPTS, settings)
    assert order[:9] == ["sample", "decode", "read"] * 3
    assert set(found) <= {"from_numpy"}, "uploads, which are copies from pinned memory on a GPU"
    assert found.count("from_numpy") < 12 * order.count("sample")


def test_sizes_are_powers_of_two_within_what_there_is() -> None:
    assert [bucket(size) for size in (0, 1, 2, 3, 4, 5, 9, 512)] == [1, 1, 2, 4, 4, 8, 16, 512]
    assert bucket(33, 44) == 44 and bucket(7, 44) == 8


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_replays_captured_steps() -> None:
    model = make_model().to("cuda")
    graphs = TorchEngine(model, TOKENIZER)
    assert graphs.static
    for settings in SETTINGS:
        expected = TorchEngine(model, TOKENIZER, static=False).generate(PROMPTS, settings)
        for _ in range(2):
            check_equal(graphs.generate(PROMPTS, settings), expected)
    (store,) = graphs._idle_stores
    assert store.steps is not None and store.steps.captures and store.steps.shapes
