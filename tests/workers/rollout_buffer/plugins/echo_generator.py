"""A plugin as a user writes one: rewards by the number in the prompt, without an engine, with its own hooks."""

import time
from typing import Any

from workers.rollout_buffer.generator import BaseGenerator

TASK_TYPE = "echo"


def run_rollout(data: dict[str, Any]) -> None:
    BaseGenerator.from_request(data).entry(data["input_file"], answer, reward, data["num_epoch"])


def answer(client: Any, messages: list[dict[str, Any]], sampling: dict[str, Any]) -> list[dict[str, Any]]:
    time.sleep(float(sampling.get("seconds", 0)))
    if "break" in messages[-1]["content"]:
        raise RuntimeError("it broke")
    return [*messages, {"role": "assistant", "content": messages[-1]["content"]}]


def reward(messages: list[dict[str, Any]]) -> float:
    return float(messages[-1]["content"])


def normalize_group_data(group: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**record, "reward": record["reward"] * 10} for record in group]


def get_group_data_meta_info(groups: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    return {"largest": max((record["reward"] for group in groups.values() for record in group), default=0)}
