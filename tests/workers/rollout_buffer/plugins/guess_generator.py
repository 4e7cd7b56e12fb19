"""A toy task, played without any engine: say the word that belongs to the question. Each of four words is guessed equally often."""

import random
from collections.abc import Iterator
from itertools import cycle
from typing import Any

from workers.rollout_buffer.generator import BaseGenerator

TASK_TYPE = "guess"
WORDS = [f"w{number}" for number in range(4)]
guesses: dict[str, Iterator[str]] = {}
"""By question: all words in turn from any of them, so that chance leaves no question without right answers."""


def run_rollout(data: dict[str, Any]) -> None:
    generator = BaseGenerator.from_request(data)
    generator.entry(data["input_file"], guess, is_right, int(data["num_epoch"]))


def guess(client: Any, messages: list[dict[str, Any]], sampling: dict[str, Any]) -> list[dict[str, Any]]:
    question = messages[-1]["content"]
    if question not in guesses:
        first = random.randrange(len(WORDS))
        guesses[question] = cycle(WORDS[first:] + WORDS[:first])
    return [*messages, {"role": "assistant", "content": next(guesses[question])}]


def is_right(messages: list[dict[str, Any]], item: dict[str, Any]) -> float:
    return float(messages[-1]["content"] == item["label"])
