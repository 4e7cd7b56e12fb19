"""One question, one answer, judged by the reward function that a prompt names, or else by whether its label is said last."""

from typing import Any

from training_core.errors import DataError
from training_core.importing import made
from training_core.llm.rewards.registry import REWARDS
from training_core.llm.rewards.worker import judge
from workers.rollout_buffer.generator import BaseGenerator, query_single_turn

TASK_TYPE = "single_turn"


def run_rollout(data: dict[str, Any]) -> None:
    """Ask the engine each prompt of the input file."""
    generator = BaseGenerator.from_request(data)
    generator.entry(data["input_file"], query_single_turn, judged, int(data.get("num_epoch", 1)))


def judged(messages: list[dict[str, Any]], item: dict[str, Any]) -> float:
    """By the line's `reward_type`: a built-in function of REWARDS, such as math. Raises DataError where there is none."""
    kind = item.get("reward_type")
    if kind is None:
        return label_is_said_last(messages, item)
    path = REWARDS.get(str(kind))
    if not path:
        known = ", ".join(name for name, where in REWARDS.items() if where)
        raise DataError(f"reward_type {kind!r} is none of the built-in reward functions: {known}")
    said = {"prompt": "", "completions": str(messages[-1]["content"])}
    return judge(made(path, {}), {**item, **said, "prompt_ids": [], "completion_ids": []})


def label_is_said_last(messages: list[dict[str, Any]], item: dict[str, Any]) -> float:
    """Whether the answer ends with the label's words."""
    wanted = str(item.get("label", "")).split()
    said = str(messages[-1]["content"]).split()
    return float(bool(wanted) and said[-len(wanted) :] == wanted)
