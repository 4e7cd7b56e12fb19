"""Any prompts with a reward function: each role sees the prompt and previous answers, and answers it.

Prompts are in a file of JSON Lines: {instance_id?, prompt: text or messages, label? or answer?, ...}.
"""

import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from training_core.config.base import EnvironmentSection
from training_core.config.effects import Effects, both, gives_tasks, team_reward, unless, where
from training_core.config.rewards import MathReward, Reward
from training_core.errors import ConfigError
from training_core.json_lines import read_lines
from training_core.llm.environments.base import TRY_AGAIN, Split, StepResult
from training_core.llm.environments.task_environment import TaskEnvironment, keyed_random
from training_core.served import served
from training_core.types import Message

if TYPE_CHECKING:  # environments are imported without their reward functions
    from training_core.llm.rewards.pool import RewardResult


class Dataset(EnvironmentSection):
    """Prompts from a JSON Lines file, with a reward function for the answers; any roles answer them in turn."""

    roles: ClassVar[tuple[str, ...]] = ("solver",)
    open_roles: ClassVar[bool] = True
    task_fields: ClassVar[tuple[str, ...]] = ("path", "eval_path")
    play_fields: ClassVar[tuple[str, ...]] = ("max_turns", "success_reward", "reward")
    effects: ClassVar[Effects] = {
        "eval_share": both(where("eval_path", ""), gives_tasks),
        "turn_discount": both(unless("max_turns", 1), team_reward),
    }
    type: Literal["dataset"] = "dataset"
    """Any prompts with a reward function."""
    file_fields: ClassVar[tuple[str, ...]] = ("path", "eval_path")
    path: str = Field(min_length=1)
    """File of lines {instance_id?, prompt: text or messages, label? or answer?, ...}, below TROUPE_HOME/data on the worker's machine."""
    eval_path: str = ""
    """File of the held-out lines; empty uses a held-out share of `path`."""
    eval_share: float = Field(0.1, gt=0.0, lt=1.0)
    """Held-out share of the lines, selected by instance_id; unused with an eval_path."""
    max_turns: int = Field(1, ge=1, le=64)
    """Turns of the whole team before the episode ends; after an incorrect answer the team tries again."""
    turn_discount: float = Field(1.0, gt=0.0, le=1.0)
    """Gamma: a role's answer at its turn t gets its reward x gamma^(t - 1)."""
    success_reward: float = 1.0
    """An answer with at least this reward is correct and ends the episode."""
    reward: Reward = MathReward()
    """The reward function for answers."""

    @property
    def answers_at_a_time(self) -> int:
        """Answers that are scored at the same time."""
        return self.reward.calls_at_a_time

    @property
    def reads_tokens(self) -> bool:
        """Whether the reward function receives the token ids of answers."""
        return self.reward.type == "custom"


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
    raise ConfigError(
        {field: f"there is no file {path!r}"}, remedy=f"put it into {candidates[0].parent.resolve()}"
    )


def read_instances(path: Path) -> tuple[Instance, ...]:
    """Every line of a file, skipping empty ones. Raises ConfigError, which names file and line."""
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _read(path: Path, changed: int) -> tuple[Instance, ...]:
    instances: list[Instance] = []
    lines: dict[str, int] = {}
    for line in read_lines(path):
        where = f"{path.name}, line {line.number}"
        if line.problem:
            raise ConfigError({"environment.path": f"{where}: {line.problem}"})
        try:
            instance = read_instance(line.value, line.number)
        except ValueError as error:
            raise ConfigError({"environment.path": f"{where}: {error}"}) from error
        if instance.instance_id in lines:
            both = f"lines {lines[instance.instance_id]} and {line.number} have the same instance_id"
            raise ConfigError({"environment.path": f"{path.name}: {both}"}, remedy="make them differ")
        lines[instance.instance_id] = line.number
        instances.append(instance)
    if not instances:
        raise ConfigError(
            {"environment.path": f'{path.name} is empty; a line is {{"prompt": ..., "label": ...}}'}
        )
    return tuple(instances)


def read_instance(fields: Any, number: int) -> Instance:
    """The instance of a line, which is named by its number if it has no instance_id. Raises ValueError."""
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
        remedy += "; or set evaluation.every = 0" if split == "eval" else ""
        raise ConfigError({"environment.path": f"{path} has no line for the {split} split"}, remedy=remedy)
    return instances


def check_held_out(environment: EnvironmentSection, every: int) -> None:
    """Raises ConfigError if a data set has no held-out line and is evaluated: `every` (evaluation.every) is above 0."""
    if isinstance(environment, Dataset) and every:
        split_instances(environment, "eval")


def task_instance(config: Dataset, seed: int, task: int, split: Split) -> Instance:
    """The instance of a task number: held-out ones in the file's order, others reshuffled for each pass over the file."""
    instances = split_instances(config, split)
    passes, index = divmod(task, len(instances))
    if split == "train":
        index = order_of_pass(seed, passes, len(instances))[index]
    return instances[index]


@lru_cache(maxsize=4)
def order_of_pass(seed: int, passes: int, count: int) -> tuple[int, ...]:
    """The order of `count` instances in a pass over them."""
    return tuple(keyed_random(seed, 0, passes).sample(range(count), count))


_SHOWN = 2000
"""Characters of a text on a board."""


class DatasetEnvironment(TaskEnvironment[Dataset, Instance]):
    """One instance. An episode ends with the first correct answer, with one that has no reward, or when the turns are
    used up.
    """

    roles: ClassVar[tuple[str, ...]] = ("solver",)

    def __init__(self, config: Dataset, seed: int) -> None:
        """Raises ConfigError if the data cannot be read."""
        from training_core.llm.rewards.pool import reward_pool

        super().__init__(config, seed)
        self._rewards = reward_pool(config.reward)
        split_instances(config, "train")

    def draw(self, task: int, split: Split) -> Instance:
        """The instance of a task number."""
        return task_instance(self.config, self.seed, task, split)

    def begin(self, instance: Instance) -> None:
        """Start with a given instance."""
        self.instance = instance
        self.answers: tuple[tuple[str, str, float | None], ...] = ()
        """(role, answer, reward), in order; None if the reward function does not apply to the answer."""

    def observe(self, role: str) -> tuple[Message, ...]:
        """The prompt, and each answer so far, marked as incorrect."""
        seen = list(self.instance.messages)
        for _, answer, _ in self.answers:
            seen += [Message(role="assistant", content=answer), Message(role="user", content=TRY_AGAIN)]
        return tuple(seen)

    def score_group(self, role: str, answers: Sequence[str]) -> "Sequence[RewardResult | None]":
        """Score all answers to the current state together, if the reward function does that. Raises EnvironmentFailure."""
        if not (self._rewards.by_group and answers):
            return [None] * len(answers)
        completions = {"completions": [str(answer) for answer in answers]}
        ids = {"completion_ids": [list(_ids(answer, "token_ids")) for answer in answers]}
        return self._rewards.score_group(self._request(answers[0]) | completions | ids)

    def act(self, role: str, answer: str) -> StepResult:
        """Score an answer. Raises EnvironmentFailure if the reward function fails."""
        (scored,) = self.score_group(role, [answer])
        return self.act_scored(role, answer, scored or self._rewards.score(self._request(answer)))

    def act_scored(self, role: str, answer: str, scored: "RewardResult") -> StepResult:
        """Apply an answer with its result of `score_group`."""
        reward, late = scored.reward, scored.timed_out
        turn = sum(speaker == role for speaker, _, _ in self.answers)
        self.answers += ((role, str(answer), reward),)
        if reward is None:
            self.done = True
            return StepResult(0.0, 0.0, True, False, "no reward", timed_out=False, scored=False)
        self.success = self.done = not (late or scored.relative) and reward >= self.config.success_reward
        paid = reward * self.config.turn_discount**turn
        info = "the reward function took too long" if late else f"reward {reward:g}"
        return StepResult(0.0, paid, self.done, self.success, info, timed_out=late, parts=scored.parts)

    def _request(self, answer: str) -> dict[str, Any]:
        """The arguments of the reward function."""
        return {
            "prompt": "\n".join(message["content"] for message in self.instance.messages),
            "completions": str(answer),
            "prompt_ids": list(_ids(answer, "prompt_ids")),
            "completion_ids": list(_ids(answer, "token_ids")),
            **self.instance.data,
        }

    def board(self) -> dict[str, Any]:
        """Prompt, answers and label, line by line."""
        right = self.config.success_reward
        lines = [{"label": "prompt", "text": self.instance.messages[-1]["content"][:_SHOWN], "state": ""}]
        lines += [
            {"label": role, "text": answer[:_SHOWN], "state": _state(reward, right)}
            for role, answer, reward in self.answers
        ]
        if "label" in self.instance.data:
            lines.append({"label": "label", "text": str(self.instance.data["label"])[:_SHOWN], "state": ""})
        return {"kind": "lines", "lines": lines}

    @property
    def title(self) -> str:
        """The instance's id."""
        return self.instance.instance_id

    @property
    def outcome(self) -> str:
        """The outcome."""
        rewards = [reward for _, _, reward in self.answers if reward is not None]
        return f"reward {max(rewards):g}" if rewards else "no reward" if self.answers else "under way"


def _ids(answer: str, name: str) -> Sequence[int]:
    """Token ids of an answer; none if its text alone was passed."""
    return getattr(answer, name, ())


def _state(reward: float | None, right: float) -> str:
    """The state of an answer's line on the board; empty without a reward."""
    return "" if reward is None else "good" if reward >= right else "bad"
