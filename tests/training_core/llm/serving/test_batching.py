"""Requests share calls, failures concern only their own answers, the gate stops one generation at a time, keys do not depend on order."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from training_core.errors import EngineFailure, PromptTooLong
from training_core.llm.generation.base import NO_ROOM, SamplingSettings
from training_core.llm.serving.batching import EpisodeNoise, Gate, RequestBatcher
from training_core.types import Answer, NoiseKey, Prompt


def test_closing_has_priority_over_waiting_generations() -> None:
    gate, order = Gate(), []
    inside, leave = threading.Event(), threading.Event()

    def generate(name: str, *, wait: bool) -> None:
        with gate.passing():
            inside.set()
            if wait:
                leave.wait()
            order.append(name)

    def publish() -> None:
        with gate.closed():
            order.append("weights")

    first = threading.Thread(target=generate, args=("first",), kwargs={"wait": True})
    first.start()
    inside.wait()
    second = threading.Thread(target=generate, args=("second",), kwargs={"wait": False})
    second.start()
    publisher = threading.Thread(target=publish)
    publisher.start()
    while not gate.closing:
        pass
    assert order == []
    leave.set()
    for thread in (first, publisher, second):
        thread.join()
    assert order == ["first", "weights", "second"]
    assert not gate.closing


def test_the_gate_opens_after_as_many_opens_as_closes() -> None:
    gate = Gate()
    gate.close()
    gate.close()
    gate.open()
    assert gate.closing
    gate.open()
    gate.open()
    assert not gate.closing
    with gate.passing():
        pass


def test_a_gate_without_slots_admits_any_number_and_closes_after_all() -> None:
    gate, left = Gate(slots=None), []
    with gate.passing(), gate.passing():
        closing = threading.Thread(target=lambda: (gate.close(), left.append("closed")))
        closing.start()
        while not gate.closing:
            pass
        assert left == []
    closing.join()
    assert left == ["closed"]


def test_the_end_refuses_waiting_and_later_generations() -> None:
    gate, refused = Gate(), []

    def generate() -> None:
        with pytest.raises(EngineFailure, match="the run has ended"), gate.passing():
            pass
        refused.append(True)

    gate.close()
    waiting = threading.Thread(target=generate)
    waiting.start()
    gate.end("the run has ended")
    waiting.join()
    generate()
    assert refused == [True, True] and gate.closing


DIGEST = 0x508D9FC4
"""CRC-32 of the ids 5, 6 as 64-bit integers."""


def noise() -> EpisodeNoise:
    return EpisodeNoise(7, 3, 1, 5)


def test_a_key_is_the_episode_the_prompt_and_its_repetition() -> None:
    episode = noise()
    assert episode.key(2, [5, 6]) == NoiseKey(7, 3, 1, 5, DIGEST << 16, 2)
    assert episode.key(2, [5, 6]) == NoiseKey(7, 3, 1, 5, (DIGEST << 16) + 1, 2)
    assert episode.key(0, [5, 6]) == NoiseKey(7, 3, 1, 5, DIGEST << 16, 0)


def test_other_calls_in_between_change_no_key() -> None:
    alone, among = noise(), noise()
    among.key(0, [8])
    among.key(1, [5, 6])
    assert among.key(0, [5, 6]) == alone.key(0, [5, 6])


def test_members_have_different_keys_that_fit_into_a_word() -> None:
    keys = {noise().of_member(member).key(0, [5, 6]) for member in (0, 1, 32767)}
    assert len(keys) == 3 and max(key.turn for key in keys) < 2**63


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
