"""When a group of records is whole, which of them count, and how their rewards are normalised.

A record is a dict {uid, instance_id, messages, reward, raw_reward, extra_info}; a group is the records of one instance.
The defaults follow slime's rollout buffer; a generator plugin may put functions of its own in their place.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import Any

Record = dict[str, Any]
Group = list[Record]
_LEAST_STD = 1e-8


@dataclass(frozen=True)
class Limits:
    """Settings of the default rules, and how much a buffer holds."""

    group_size: int = 8
    """Records of a whole group."""
    least_reward: float = -1.0
    """A record is valid when its reward is greater."""
    minimum_ratio: float = 0.7
    """Share of valid records that a group needs; also the share of its records that one must have that timed out."""
    timeout: float = 300.0
    """Seconds since its last record after which a group waits no longer."""
    max_records: int = 100_000
    """Records held at once; beyond it no new group is begun."""


@dataclass(frozen=True)
class Rules:
    """What a plugin may replace; the names are slime's."""

    is_valid_group: Callable[[str, Group], tuple[bool, bool]]
    """(instance id, records) -> (worth training on, complete)."""
    normalize_group_data: Callable[[Group], Group]
    """Records -> the same with normalised rewards."""
    pad_group_data: Callable[[Group, int], Group]
    """(records, group size) -> as many as the group size."""
    filter_item: Callable[[Record], bool]
    """Whether a record of a valid group is handed out."""
    get_group_data_meta_info: Callable[[Mapping[str, Group]], dict[str, Any]]
    """Groups by instance id, before normalisation -> figures."""


HOOKS = tuple(Rules.__dataclass_fields__)
"""Names of the functions that a plugin may have."""


def make_rules(limits: Limits, hooks: Mapping[str, Callable[..., Any]]) -> Rules:
    """The default rules, with a plugin's functions in place of its own."""

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


def valid_share(group: Group, limits: Limits) -> float:
    """Valid records over all records of a group."""
    return len([record for record in group if record["reward"] > limits.least_reward]) / len(group)


def normalised(group: Group, valid: Callable[[Record], bool]) -> Group:
    """Valid rewards less their mean, by their population standard deviation + 1e-8, times records over valid records.

    The last factor gives a group with invalid records the weight of a whole one. Rewards that are all equal become 0.
    """
    rewards = [record["reward"] for record in group if valid(record)]
    if not rewards:
        return group
    mean, std, scale = fmean(rewards), pstdev(rewards) + _LEAST_STD, len(group) / len(rewards)
    return [
        {**record, "reward": (record["reward"] - mean) / std * scale} if valid(record) else record
        for record in group
    ]


def halved_duplicates(group: Group, group_size: int) -> Group:
    """Fill a group up with duplicates, in order; a record and its duplicate share the reward half and half.

    A `pad_group_data` for learners that need whole groups; ours does not, so it is not the default.
    """
    missing = min(max(group_size - len(group), 0), len(group))
    halves = [{**record, "reward": record["reward"] / 2} for record in group[:missing]]
    copies = [{**record, "uid": f"{record['uid']}-duplicate"} for record in halves]
    return [*halves, *group[missing:], *copies]


def group_figures(groups: Mapping[str, Group], valid: Callable[[Record], bool]) -> dict[str, Any]:
    """Slime's figures of the groups handed out: samples, groups, mean size, mean valid reward, instance ids."""
    rewards = [record["reward"] for group in groups.values() for record in group if valid(record)]
    total = sum(len(group) for group in groups.values())
    return {
        "total_samples": total,
        "num_groups": len(groups),
        "avg_group_size": total / len(groups) if groups else 0.0,
        "avg_reward": fmean(rewards) if rewards else 0.0,
        "finished_groups": list(groups),
    }


def checked_record(given: Any) -> Record:
    """A record as it is kept: numbers may come as text. Raises ValueError, naming what is wrong."""
    if not isinstance(given, dict):
        raise ValueError("a record is a JSON object with uid, instance_id, messages and reward")
    missing = [name for name in ("uid", "instance_id", "messages", "reward") if given.get(name) is None]
    if missing:
        raise ValueError(f"the record has no {', '.join(missing)}")
    reward = finite(given["reward"], "reward")
    return {
        **given,
        "uid": str(given["uid"]),
        "instance_id": str(given["instance_id"]),
        "messages": _messages(given["messages"]),
        "reward": reward,
        "raw_reward": finite(given["raw_reward"], "raw_reward") if "raw_reward" in given else reward,
        "extra_info": given.get("extra_info") or {},
    }


def finite(value: Any, name: str) -> float:
    """A number, or text that is one. Raises ValueError for anything else, NaN and infinities included."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is no number: {value!r}") from None
    if not abs(number) < float("inf"):
        raise ValueError(f"{name} is no finite number: {value!r}")
    return number


def _messages(given: Any) -> Sequence[dict[str, Any]]:
    if not isinstance(given, list) or not all(isinstance(each, dict) and "role" in each for each in given):
        raise ValueError("messages is a list of chat messages {role, content}")
    for place, message in enumerate(given):
        ids = message.get("token_ids")
        if ids is not None and not (isinstance(ids, list) and all(type(each) is int for each in ids)):
            raise ValueError(f"messages[{place}].token_ids is a list of whole numbers")
        for name in ("logprobs", "versions"):
            values = message.get(name)
            if ids is not None and isinstance(values, list) and len(values) != len(ids):
                raise ValueError(
                    f"messages[{place}] has {len(ids)} token_ids and {len(values)} {name}; give one for each token"
                )
    return given
