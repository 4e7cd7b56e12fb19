"""Asks the engine, and rewards an answer by its number of different letters: nearly every group holds different rewards."""

from typing import Any

from workers.rollout_buffer.generator import BaseGenerator, query_single_turn

TASK_TYPE = "counted"


def run_rollout(data: dict[str, Any]) -> None:
    generator = BaseGenerator.from_request(data)
    generator.entry(data["input_file"], query_single_turn, different_letters, int(data["num_epoch"]))


def different_letters(messages: list[dict[str, Any]], item: dict[str, Any]) -> float:
    return len(set(messages[-1]["content"])) / 10
