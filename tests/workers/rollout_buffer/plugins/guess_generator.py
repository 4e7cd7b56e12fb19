"""A toy task, played without any engine: say the word that belongs to the question. Guesses among four words."""

import random
from typing import Any

from workers.rollout_buffer.generator import BaseGenerator

TASK_TYPE = "guess"


def run_rollout(data: dict[str, Any]) -> None:
    generator = BaseGenerator.from_request(data)
    generator.entry(data["input_file"], guess, is_right, int(data["num_epoch"]))


def guess(client: Any, messages: list[dict[str, Any]], sampling: dict[str, Any]) -> list[dict[str, Any]]:
    return [*messages, {"role": "assistant", "content": f"w{random.randrange(4)}"}]


def is_right(messages: list[dict[str, Any]], item: dict[str, Any]) -> float:
    return float(messages[-1]["content"] == item["label"])
