"""Requests at about the same time share a call; a failure or an interruption concerns only its own answers."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from training_core.errors import PromptTooLong
from training_core.llm.generation.base import NO_ROOM, SamplingSettings
from training_core.llm.serving.batching import RequestBatcher
from training_core.types import Answer, NoiseKey, Prompt

WARM, COLD = SamplingSettings(temperature=1.0), SamplingSettings(temperature=0.5)
POISON = 13


class Doubling:
    """Answers a prompt [n] with [2n]; records the first ids of each call's prompts."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []

    def __call__(self, prompts: Sequence[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
        ids = [prompt.token_ids[0] for prompt in prompts]
        self.calls.append(ids)
        if POISON in ids:
            raise IndexError("index out of range")
        return [[answer(2 * number)] * prompt.count for number, prompt in zip(ids, prompts, strict=True)]


def answer(token: int, stop: str = "stop") -> Answer:
    return Answer([token], [0.0], [0], stop, "")  # type: ignore[arg-type]


def prompt(number: int, count: int = 1) -> Prompt:
    return Prompt([number], count, NoiseKey(0, 0, 0, 0, 0, 0))


def tokens(answers: list[Answer]) -> list[int]:
    return [token for item in answers for token in item.token_ids]


def test_requests_with_equal_settings_share_a_call_in_their_order() -> None:
    engine, other = Doubling(), Doubling()

    async def play() -> list[list[Answer]]:
        batcher = RequestBatcher(window=0.05, threads=1)
        requests = [
            (engine, prompt(1), WARM),
            (engine, prompt(2), COLD),
            (other, prompt(3), WARM),
            (engine, prompt(4, 2), WARM),
        ]
        return await asyncio.gather(*(batcher.generate_answers("policy", *request) for request in requests))

    answers = asyncio.run(play())
    assert [tokens(item) for item in answers] == [[2], [4], [6], [8, 8]]
    assert engine.calls == [[1, 4], [2]] and other.calls == [[3]]


def test_requests_during_a_batch_wait_for_the_next_one() -> None:
    started, finish = threading.Event(), threading.Event()
    engine = Doubling()

    def generate(prompts: Sequence[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
        started.set()
        finish.wait()
        return engine(prompts, settings)

    async def play() -> None:
        batcher = RequestBatcher(window=0.0, threads=1)
        first = asyncio.create_task(batcher.generate_answers("policy", generate, prompt(1), WARM))
        await asyncio.to_thread(started.wait)
        later = [
            asyncio.create_task(batcher.generate_answers("policy", generate, prompt(number), WARM))
            for number in (2, 3)
        ]
        await asyncio.sleep(0)
        finish.set()
        await asyncio.gather(first, *later)

    asyncio.run(play())
    assert engine.calls == [[1], [2, 3]]


def test_a_failure_concerns_only_its_own_request() -> None:
    engine = Doubling()

    async def play() -> list[list[Answer] | BaseException]:
        batcher = RequestBatcher(window=0.05, threads=1)
        numbers = (1, POISON, 2)
        return await asyncio.gather(
            *(batcher.generate_answers("policy", engine, prompt(number), WARM) for number in numbers),
            return_exceptions=True,
        )

    first, failure, last = asyncio.run(play())
    assert isinstance(failure, IndexError)
    assert isinstance(first, list) and isinstance(last, list) and (tokens(first), tokens(last)) == ([2], [4])
    assert engine.calls == [[1, POISON, 2], [1], [POISON], [2]]


def test_an_engine_that_omits_prompts_fails_the_request() -> None:
    async def play() -> list[Answer]:
        return await RequestBatcher(0.0, 1).generate_answers("policy", lambda *_: [], prompt(1), WARM)

    with pytest.raises(Exception, match="answered 0 prompts of 1"):
        asyncio.run(play())


def test_an_interrupted_answer_continues_after_its_tokens() -> None:
    prompts: list[list[int]] = []

    def generate(asked: Sequence[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
        prompts.extend(item.token_ids for item in asked)
        stop = "interrupt" if len(prompts) < 3 else "stop"
        return [[answer(10 * len(prompts), stop)] for _ in asked]

    async def play() -> list[Answer]:
        return await RequestBatcher(0.0, 1).generate_answers("policy", generate, prompt(1), WARM)

    (whole,) = asyncio.run(play())
    assert prompts == [[1], [1, 10], [1, 10, 20]]
    assert (whole.token_ids, whole.stop_reason) == ([10, 20, 30], "stop")


def test_a_prompt_without_room_is_refused_without_a_second_call() -> None:
    calls: list[int] = []

    def generate(prompts: Sequence[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
        calls.append(len(prompts))
        return [[NO_ROOM] if prompt.token_ids == [POISON] else [answer(1)] for prompt in prompts]

    async def play() -> list[list[Answer] | BaseException]:
        batcher = RequestBatcher(window=0.05, threads=1)
        requests = [
            batcher.generate_answers("policy", generate, prompt(number), WARM) for number in (1, POISON)
        ]
        return await asyncio.gather(*requests, return_exceptions=True)

    answered, refused = asyncio.run(play())
    assert answered == [answer(1)] and isinstance(refused, PromptTooLong) and calls == [2]
