"""Any prompts with a reward function: each role sees the prompt and previous answers, and answers it."""

from typing import Any, ClassVar, get_args

from training_core.config.rollout import TRY_AGAIN
from training_core.llm.environments.base import Split, StepResult
from training_core.llm.environments.dataset.config import Dataset
from training_core.llm.environments.dataset.instances import Instance, split_instances, task_instance
from training_core.llm.environments.task_environment import TaskEnvironment
from training_core.llm.rewards.pool import reward_pool
from training_core.types import Message

_SHOWN = 2000
"""Characters of a text on a board."""


class DatasetEnvironment(TaskEnvironment[Dataset, Instance]):
    """One instance. An episode ends with the first correct answer, with one that has no reward, or when the turns are
    used up.
    """

    roles: ClassVar[tuple[str, ...]] = ("solver",)

    def __init__(self, config: Dataset, seed: int) -> None:
        """Raises ConfigError if the data cannot be read."""
        super().__init__(config, seed)
        self._rewards = reward_pool(config.reward)
        for split in get_args(Split):
            split_instances(config, split)

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

    def act(self, role: str, answer: str) -> StepResult:
        """Score an answer. Raises EnvironmentFailure if the reward function fails."""
        judgement = self._rewards.score(
            {
                "prompt": "\n".join(message["content"] for message in self.instance.messages),
                "completions": answer,
                "prompt_ids": [],
                "completion_ids": [],
                **self.instance.data,
            }
        )
        reward, late = judgement.reward, judgement.timed_out
        turn = sum(speaker == role for speaker, _, _ in self.answers)
        self.answers += ((role, answer, reward),)
        if reward is None:
            self.done = True
            return StepResult(0.0, 0.0, True, False, "no reward", timed_out=False, scored=False)
        self.success = self.done = not late and reward >= self.config.success_reward
        paid = reward * self.config.turn_discount**turn
        info = "the reward function took too long" if late else f"reward {reward:g}"
        return StepResult(0.0, paid, self.done, self.success, info, timed_out=late)

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


def _state(reward: float | None, right: float) -> str:
    """The state of an answer's line on the board; empty without a reward."""
    return "" if reward is None else "good" if reward >= right else "bad"
