"""Prompts in a file of JSON Lines: {instance_id?, prompt: text or messages, label? or answer?, ...}."""

import json
import os
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

from training_core.errors import ConfigError
from training_core.llm.environments.base import Split
from training_core.llm.environments.dataset.config import Dataset
from training_core.seeding import keyed_seed
from training_core.served import served
from training_core.types import Message

DATA = "data"
"""Folder of TROUPE_HOME in which relative paths are resolved."""
_SPEAKERS = ("system", "user", "assistant", "tool")


@dataclass(frozen=True)
class Instance:
    """One line of a file."""

    instance_id: str
    messages: tuple[Message, ...]
    data: dict[str, Any]
    """Every field except the prompt, with `label` and `answer` as aliases: keyword arguments of the reward function."""


def data_file(path: str, field: str = "environment.path") -> Path:
    """The path of a file in the config: below TROUPE_HOME/data, otherwise as given. Raises ConfigError if it does not
    exist.

    A process started by a server only searches below TROUPE_HOME/data.
    """
    home = Path(os.environ.get("TROUPE_HOME", "var")).expanduser()
    candidates = [home / DATA / path, Path(path).expanduser()]
    for index in candidates[:1] if served() else candidates:
        if index.is_file():
            return index.resolve()
    raise ConfigError({field: f"there is no file {path!r}; put it into {candidates[0].parent.resolve()}"})


def read_instances(path: Path) -> tuple[Instance, ...]:
    """Every line of a file, skipping empty ones. Raises ConfigError, which names file and line."""
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _read(path: Path, changed: int) -> tuple[Instance, ...]:
    instances: list[Instance] = []
    lines: dict[str, int] = {}
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                instance = _instance(json.loads(line), number)
            except ValueError as error:
                reason = error.msg if isinstance(error, json.JSONDecodeError) else error
                raise ConfigError({"environment.path": f"{path.name}, line {number}: {reason}"}) from error
            if instance.instance_id in lines:
                both = f"lines {lines[instance.instance_id]} and {number} have the same instance_id"
                raise ConfigError({"environment.path": f"{path.name}: {both}; make them differ"})
            lines[instance.instance_id] = number
            instances.append(instance)
    if not instances:
        raise ConfigError(
            {"environment.path": f'{path.name} is empty; a line is {{"prompt": ..., "label": ...}}'}
        )
    return tuple(instances)


def _instance(fields: Any, number: int) -> Instance:
    """Raises ValueError."""
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    if "prompt" not in fields:
        raise ValueError(f"no field 'prompt'; there are {', '.join(map(str, fields)) or 'none'}")
    data = {name: value for name, value in fields.items() if name not in ("prompt", "instance_id")}
    for one, other in (("label", "answer"), ("answer", "label")):
        if one in data:
            data.setdefault(other, data[one])
    instance_id = str(fields.get("instance_id", number))
    return Instance(instance_id, _messages(fields["prompt"]), data | {"instance_id": instance_id})


def _messages(prompt: Any) -> tuple[Message, ...]:
    if isinstance(prompt, str):
        prompt = [{"role": "user", "content": prompt}]
    if not isinstance(prompt, list) or not prompt:
        raise ValueError("'prompt' is neither a string nor a list of messages")
    for index, message in enumerate(prompt):
        if not isinstance(message, dict) or not isinstance(message.get("content"), str):
            raise ValueError(f"message {index + 1} of 'prompt' has no string as 'content'")
        if message.get("role") not in _SPEAKERS:
            raise ValueError(f"message {index + 1} of 'prompt' has no 'role' of {', '.join(_SPEAKERS)}")
    return tuple(Message(role=message["role"], content=message["content"]) for message in prompt)


def split_instances(config: Dataset, split: Split) -> tuple[Instance, ...]:
    """The instances of a split. Raises ConfigError if it has none.

    With an eval_path each split is a file. Otherwise about eval_share of the instances are held out by their id,
    independent of the run's seed and of other lines.
    """
    path = config.eval_path if config.eval_path and split == "eval" else config.path
    instances = read_instances(data_file(path))
    if not config.eval_path:
        limit = config.eval_share * 2**32
        instances = tuple(
            item for item in instances if (zlib.crc32(item.instance_id.encode()) < limit) == (split == "eval")
        )
    if not instances:
        remedy = "give environment.eval_path, more lines, or another environment.eval_share"
        raise ConfigError({"environment.path": f"{path} has no line for the {split} split; {remedy}"})
    return instances


def task_instance(config: Dataset, seed: int, task: int, split: Split) -> Instance:
    """The instance of a task number: held-out ones in the file's order, others reshuffled for each pass over the file."""
    instances = split_instances(config, split)
    passes, index = divmod(task, len(instances))
    if split == "train":
        index = _order(seed, passes, len(instances))[index]
    return instances[index]


@lru_cache(maxsize=4)
def _order(seed: int, passes: int, count: int) -> tuple[int, ...]:
    return tuple(Random(keyed_seed(seed, 0, passes)).sample(range(count), count))
