"""A toy world in which everything can be added up by hand, and a rollout context to play it in.

Each task starts at 100 x its number. The planner's answer is added to the total; the executor's is subtracted. What the
roles see is the total, so that every prompt tells what happened before it.
"""

import copy
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from tests.training_core.llm.scripted import Script, ScriptedEngine
from training_core.config.base import Section
from training_core.config.files import load_config
from training_core.config.run import RunConfig
from training_core.llm.base_models.warm_start import word_tokenizer
from training_core.llm.environments.base import Split, StepResult
from training_core.llm.environments.host import EnvironmentHost
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.workflows.context import RolloutContext
from training_core.types import Answer, Prompt
from workers.actors.player import renderer

TOKENIZER = word_tokenizer(
    ("task", "total", "eval", "train", "boom", *(str(number) for number in range(-50, 1000)))
)


class Counting(Section):
    """Config of the toy world."""

    type: str = "counting"
    turns: int = 2
    breaks_at_reset: tuple[int, ...] = ()
    breaks_when_seen: tuple[int, ...] = ()


class CountingEnvironment:
    """See the module."""

    roles: ClassVar[tuple[str, ...]] = ("planner", "executor")

    def __init__(self, config: Counting, seed: int) -> None:
        self.config = config
        self.task, self.total, self.turns, self.split = 0, 0, 0, ""

    def reset(self, task: int, split: Split) -> None:
        if task in self.config.breaks_at_reset:
            raise OSError("no such task")
        self.task, self.total, self.turns, self.split = task, 100 * task, 0, split

    def observe(self, role: str) -> str:
        if self.task in self.config.breaks_when_seen and self.turns > 0:
            raise RuntimeError("went dark")
        return f"{self.split} task {self.task} total {self.total}"

    def act(self, role: str, answer: str) -> StepResult:
        change = int(answer)  # "boom" raises, as a user's environment may
        self.total += change if role == "planner" else -change
        self.turns += role == "executor"
        team = 1.0 if self.done else 0.0
        return StepResult(float(self.total), team, self.done, self.success, f"total {self.total}")

    def copy(self) -> Self:
        return copy.copy(self)

    def board(self) -> dict[str, Any]:
        return {"total": self.total}

    @property
    def title(self) -> str:
        return f"count from {100 * self.task}"

    @property
    def task_id(self) -> str:
        return f"{self.split}-{self.task}"

    @property
    def outcome(self) -> str:
        return f"ended at {self.total}"

    @property
    def success(self) -> bool:
        return self.done

    @property
    def done(self) -> bool:
        return self.turns >= self.config.turns


class Recorder:
    """A scripted policy that remembers what it was asked."""

    def __init__(self, script: Script) -> None:
        self.engine = ScriptedEngine(TOKENIZER, script)
        self.seen: list[str] = []
        self.settings: list[SamplingSettings] = []
        self.prompts: list[Prompt] = []

    def __call__(self, prompts: list[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
        self.seen += [
            TOKENIZER.decode(prompt.token_ids, skip_special_tokens=True).strip() for prompt in prompts
        ]
        self.prompts += prompts
        self.settings.append(settings)
        return self.engine.generate(prompts, settings)


render = renderer(TOKENIZER)
"""Messages -> ids, as a run's workers render them."""


def make_context(
    voices: Mapping[str, Any], section: Counting | None = None, **overrides: Any
) -> RolloutContext:
    """Two policies at the toy world; overrides with double underscores for dots."""
    pool = EnvironmentHost(section or Counting(), seed=0)
    return RolloutContext(
        config(**overrides), pool, voices, dict.fromkeys(voices, render), attempt=1, iteration=3
    )


def config(**overrides: Any) -> RunConfig:
    """plan_path_duo with three candidates a group."""
    given = {key.replace("__", "."): value for key, value in overrides.items()}
    carry = {} if "workflow.type" in given else {"workflow.carry": "best"}
    return load_config("plan_path_duo", {"rollout.group_size": 3} | carry | given)
