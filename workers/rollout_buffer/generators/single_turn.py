"""One prompt, one answer; the reward is that of the prompt's reward function, or else whether the answer ends with its label."""

from typing import Any

from training_core.errors import DataError
from training_core.importing import made
from training_core.llm.rewards.pool import REWARDS
from training_core.llm.rewards.worker import score
from workers.rollout_buffer.generator import BaseGenerator, query_single_turn

TASK_TYPE = "single_turn"


def run_rollout(data: dict[str, Any]) -> None:
    """Generate an answer for each prompt of the input file."""
    generator = BaseGenerator.from_request(data)
    generator.entry(data["input_file"], query_single_turn, reward, int(data.get("num_epoch", 1)))


def reward(messages: list[dict[str, Any]], item: dict[str, Any]) -> float:
    """Reward by the line's `reward_type`, a built-in function of REWARDS such as math. Raises DataError if it is unknown."""
    kind = item.get("reward_type")
    if kind is None:
        return ends_with_label(messages, item)
    path = REWARDS.get(str(kind))
    if not path:
        known = ", ".join(name for name, where in REWARDS.items() if where)
        raise DataError(f"reward_type {kind!r} is none of the built-in reward functions: {known}")
    fields = {"prompt": "", "completions": str(messages[-1]["content"])}
    value = score(made(path, {}), {**item, **fields, "prompt_ids": [], "completion_ids": []})
    assert value is not None, "built-in functions apply to every answer"
    return value


def ends_with_label(messages: list[dict[str, Any]], item: dict[str, Any]) -> float:
    """1.0 if the answer ends with the label's words, else 0.0."""
    label = str(item.get("label", "")).split()
    answer = str(messages[-1]["content"]).split()
    return float(bool(label) and answer[-len(label) :] == label)
