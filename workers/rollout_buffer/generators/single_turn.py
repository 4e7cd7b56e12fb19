"""One question, one answer: 1 where the label is what is said last, else 0."""

from typing import Any

from workers.rollout_buffer.generator import BaseGenerator, query_single_turn

TASK_TYPE = "single_turn"


def run_rollout(data: dict[str, Any]) -> None:
    """Ask the engine each prompt of the input file."""
    generator = BaseGenerator.from_request(data)
    generator.entry(data["input_file"], query_single_turn, label_is_said_last, int(data.get("num_epoch", 1)))


def label_is_said_last(messages: list[dict[str, Any]], item: dict[str, Any]) -> float:
    """Whether the answer ends with the label's words."""
    wanted = str(item.get("label", "")).split()
    said = str(messages[-1]["content"]).split()
    return float(bool(wanted) and said[-len(wanted) :] == wanted)
