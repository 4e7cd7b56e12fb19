"""The config of prompts from a file."""

from typing import ClassVar, Literal

from pydantic import Field

from training_core.config.base import EnvironmentSection
from training_core.config.effects import Effects, both, gives_tasks, team_reward, unless, where
from training_core.config.rewards import MathReward, Reward


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
        return self.reward.processes
