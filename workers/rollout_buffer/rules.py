"""Rules of groups: when a group is complete, which records are valid, and how rewards are normalised.

A record is a dict {uid, instance_id, messages, reward, raw_reward, extra_info}; a group is the records of one instance.
The defaults follow slime's rollout buffer; a generator plugin may replace them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import Any

Record = dict[str, Any]
RecordGroup = list[Record]
Hooks = Mapping[str, Callable[..., Any]]
_LEAST_STD = 1e-8


@dataclass(frozen=True)
class BufferLimits:
    """Settings of the default rules, and the maximum size of a buffer."""

    group_size: int = 8
    """Number of records of a complete group."""
    least_reward: float = -1.0
    """A record is valid if its reward is greater than this."""
    minimum_ratio: float = 0.7
    """Minimum share of valid records of a group; also the minimum share of `group_size` for a group that timed out."""
    timeout: float = 300.0
    """Seconds since its last record after which a group is closed."""
    max_records: int = 100_000
    """Maximum number of stored records; beyond it no new group is opened."""


@dataclass(frozen=True)
class Rules:
    """Functions that a plugin may replace; the names are slime's."""

    is_valid_group: Callable[[str, RecordGroup], tuple[bool, bool]]
    """(instance id, records) -> (worth training on, complete)."""
    normalize_group_data: Callable[[RecordGroup], RecordGroup]
    """records -> records with normalised rewards."""
    pad_group_data: Callable[[RecordGroup, int], RecordGroup]
    """(records, group size) -> records, padded to the group size."""
    filter_item: Callable[[Record], bool]
    """record -> whether it is delivered, if its group is valid."""
    get_group_data_meta_info: Callable[[Mapping[str, RecordGroup]], dict[str, Any]]
    """groups by instance id, before normalisation -> statistics."""


HOOKS = tuple(Rules.__dataclass_fields__)
"""Names of the functions that a plugin may define."""


def make_rules(limits: BufferLimits, hooks: Hooks) -> Rules:
    """The default rules, overridden by a plugin's functions."""

    def valid(record: Record) -> bool:
        return bool(record["reward"] > limits.least_reward)

    defaults: dict[str, Callable[..., Any]] = {
        "is_valid_group": lambda _, group: (
            len(group) >= limits.group_size and valid_share(group, limits) >= limits.minimum_ratio,
            len(group) >= limits.group_size,
        ),
        "normalize_group_data": lambda group: normalised(group, valid),
        "pad_group_data": lambda group, _: group,
        "filter_item": valid,
        "get_group_data_meta_info": lambda groups: group_figures(groups, valid),
    }
    return Rules(**(defaults | dict(hooks)))


def valid_share(group: RecordGroup, limits: BufferLimits) -> float:
    """Share of valid records in a group."""
    return len([record for record in group if record["reward"] > limits.least_reward]) / len(group)


def normalised(group: RecordGroup, valid: Callable[[Record], bool]) -> RecordGroup:
    """Valid rewards minus their mean, divided by (population standard deviation + 1e-8), times records over valid records.

    The last factor gives a group with invalid records the weight of a complete one. Equal rewards become 0.
    """
    rewards = [record["reward"] for record in group if valid(record)]
    if not rewards:
        return group
    mean, std, scale = fmean(rewards), pstdev(rewards) + _LEAST_STD, len(group) / len(rewards)
    return [
        {**record, "reward": (record["reward"] - mean) / std * scale} if valid(record) else record
        for record in group
    ]


def halved_duplicates(group: RecordGroup, group_size: int) -> RecordGroup:
    """Pad a group with duplicates, in order; a record and its duplicate each get half of the reward.

    A `pad_group_data` for learners that need complete groups; Troupe's does not, so it is not the default.
    """
    missing = min(max(group_size - len(group), 0), len(group))
    halves = [{**record, "reward": record["reward"] / 2} for record in group[:missing]]
    copies = [{**record, "uid": f"{record['uid']}-duplicate"} for record in halves]
    return [*halves, *group[missing:], *copies]


def group_figures(groups: Mapping[str, RecordGroup], valid: Callable[[Record], bool]) -> dict[str, Any]:
    """Slime's statistics of delivered groups: samples, groups, mean size, mean valid reward, instance ids."""
    rewards = [record["reward"] for group in groups.values() for record in group if valid(record)]
    total = sum(len(group) for group in groups.values())
    return {
        "total_samples": total,
        "num_groups": len(groups),
        "avg_group_size": total / len(groups) if groups else 0.0,
        "avg_reward": fmean(rewards) if rewards else 0.0,
        "finished_groups": list(groups),
    }


def checked_record(value: Any) -> Record:
    """The record as it is stored; numbers may be text. Raises ValueError, which names the problem."""
    if not isinstance(value, dict):
        raise ValueError("a record is a JSON object with uid, instance_id, messages and reward")
    missing = [name for name in ("uid", "instance_id", "messages", "reward") if value.get(name) is None]
    if missing:
        raise ValueError(f"the record has no {', '.join(missing)}")
    reward = finite(value["reward"], "reward")
    return {
        **value,
        "uid": str(value["uid"]),
        "instance_id": str(value["instance_id"]),
        "messages": _messages(value["messages"]),
        "reward": reward,
        "raw_reward": finite(value["raw_reward"], "raw_reward") if "raw_reward" in value else reward,
        "extra_info": value.get("extra_info") or {},
    }


def finite(value: Any, name: str) -> float:
    """Convert a value to a finite number. Raises ValueError."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is not a number: {value!r}") from None
    if not abs(number) < float("inf"):
        raise ValueError(f"{name} is not a finite number: {value!r}")
    return number


def whole_number(value: Any, name: str) -> int:
    """Convert a value to an integer above 0. Raises ValueError."""
    try:
        number = int(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is not a whole number: {value!r}") from None
    if number < 1:
        raise ValueError(f"{name} is {number}; it must be 1 or more")
    return number


def _messages(value: Any) -> Sequence[dict[str, Any]]:
    if not isinstance(value, list) or not all(
        isinstance(message, dict) and "role" in message for message in value
    ):
        raise ValueError("messages is a list of chat messages {role, content}")
    for index, message in enumerate(value):
        ids = message.get("token_ids")
        if ids is not None and not (isinstance(ids, list) and all(type(token) is int for token in ids)):
            raise ValueError(f"messages[{index}].token_ids is a list of whole numbers")
        for name in ("logprobs", "versions"):
            values = message.get(name)
            if ids is not None and isinstance(values, list) and len(values) != len(ids):
                raise ValueError(
                    f"messages[{index}] has {len(ids)} token_ids and {len(values)} {name}; give one for each token"
                )
    return value
