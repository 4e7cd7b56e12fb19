"""Reward functions that the tests import by path: good ones, and ones that hang, crash and raise."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any


def length(
    prompt: str, completions: str, prompt_ids: list[int], completion_ids: list[int], **data: Any
) -> float:
    """AReaL's signature."""
    return len(completions) / 10


async def later(prompt: str, completions: str, label: str, **data: Any) -> bool:
    await asyncio.sleep(0)
    return completions == label


_HELD = asyncio.Lock()


async def in_one_loop(completions: str, **data: Any) -> float:
    """Its lock, as a client's connection, belongs to the loop of the first call."""
    await asyncio.gather(_hold(), _hold())
    return 1.0


async def _hold() -> None:
    async with _HELD:
        await asyncio.sleep(0)


def hangs(prompt: str, completions: str, **data: Any) -> float:
    if completions == "hang":
        time.sleep(600)
    return 1.0


def crashes(completions: str, **data: Any) -> float:
    if completions == "crash":
        os._exit(9)
    return 1.0


def works_the_second_time(completions: str, folder: str, **data: Any) -> float:
    """Dies once, then works: its notes are on disk."""
    notes = Path(folder, "tried")
    if notes.exists():
        return 0.5
    notes.touch()
    os._exit(1)


def raises(completions: str, **data: Any) -> float:
    raise ValueError("no such unit")


def says_text(completions: str, **data: Any) -> Any:
    print("this must not get between the judgements")
    return "good" if completions == "text" else 1


def in_parts(completions: str, **data: Any) -> Any:
    """verl's form, with `reward` as the total."""
    if completions == "wrong":
        return {"right": 1.0}
    if completions == "n/a":
        return {"reward": None, "right": None}
    return {"reward": 1.5, "right": True, "short": 0.5}


def each_in_parts(completions: list[str], **data: Any) -> Any:
    return [{"reward": len(text), "length": len(text)} for text in completions]


class AppliesToNothing:
    """No reward applies; a second call would raise."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, completions: str, **data: Any) -> None:
        self.calls += 1
        assert self.calls == 1


def pid(completions: str, **data: Any) -> float:
    return float(os.getpid())


class Scaled:
    """A class: made once with its arguments, called for each answer."""

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.calls = 0

    def __call__(self, completions: str, **data: Any) -> float:
        self.calls += 1
        return self.factor * self.calls


class SlowToMake:
    """Takes longer to be made than its judgements may take."""

    def __init__(self) -> None:
        time.sleep(4.0)

    def __call__(self, completions: str, **data: Any) -> float:
        return hangs("", completions)


def greedy(completions: str, **data: Any) -> float:
    """Asks for so many MiB."""
    return float(len(bytearray(int(completions) << 20)) > 0)


def ids(prompt_ids: list[int], completion_ids: list[int], **data: Any) -> float:
    return len(prompt_ids) + len(completion_ids) / 100


def above_mean(completions: list[str], completion_ids: list[list[int]], **data: Any) -> list[float | None]:
    """How far each number is above the group's mean, and a hundredth for each token; does not apply to words."""
    numbers = [float(text) for text in completions if text.isdecimal()]
    mean = sum(numbers) / len(numbers)
    return [
        float(text) - mean + len(tokens) / 100 if text.isdecimal() else None
        for text, tokens in zip(completions, completion_ids, strict=True)
    ]


def one_for_all(completions: list[str], **data: Any) -> float:
    return 1.0


def two(completions: list[str], **data: Any) -> list[float]:
    return [1.0, 2.0]
