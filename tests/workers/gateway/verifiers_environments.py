"""Environments of verifiers, made of its own classes, for the tests of environment.type = "verifiers". It needs that package."""

from collections.abc import Iterator
from typing import Any

import verifiers as classic
import verifiers.v1 as vf
from datasets import Dataset


def _rows(count: int = 8) -> Dataset:
    return Dataset.from_list([{"question": f"goal {number}", "answer": "north"} for number in range(count)])


def _right(completion: Any, answer: str) -> float:
    return float(answer in str(completion[-1].content))


def single_turn(bonus: float = 0.0) -> classic.Environment:
    """One answer."""
    rubric = classic.Rubric([_right, lambda completion: bonus])
    return classic.SingleTurnEnv(dataset=_rows(), system_prompt="Name it.", rubric=rubric)


def _look() -> str:
    """The direction of the goal."""
    return "north"


def tools() -> classic.Environment:
    """A tool without a state."""
    return classic.ToolEnv(dataset=_rows(), tools=[_look], rubric=classic.Rubric([_right]), max_turns=3)


class _Steps(classic.StatefulToolEnv):
    """A tool with a state: how often it was called."""

    def __init__(self) -> None:
        super().__init__(dataset=_rows(), rubric=classic.Rubric([self.steps]), max_turns=4)
        self.add_tool(self.step, args_to_skip=["state"])

    async def step(self, state: dict[str, Any]) -> str:
        """Go on."""
        state["steps"] = state.get("steps", 0) + 1
        return str(state["steps"])

    def update_tool_args(
        self, tool_name: str, tool_args: dict[str, Any], messages: Any, state: Any, **kwargs: Any
    ) -> dict[str, Any]:
        return {**tool_args, "state": state}

    def steps(self, state: Any) -> float:
        return float(state.get("steps", 0))


def stateful_tools() -> classic.Environment:
    """A tool with a state."""
    return _Steps()


class _Warmer(classic.MultiTurnEnv):
    """Says "again" until the answer is right."""

    async def env_response(self, messages: Any, state: Any, **kwargs: Any) -> Any:
        if "north" in str(messages[-1].content):
            state["final_env_response"] = [{"role": "user", "content": "right"}]
            return state["final_env_response"]
        return [{"role": "user", "content": "again"}]


def multi_turn() -> classic.Environment:
    """A conversation."""
    rubric = classic.Rubric([lambda state: 1.0 / len(state["trajectory"])])
    return _Warmer(dataset=_rows(), max_turns=5, rubric=rubric)


def group() -> classic.Environment:
    """Two environments in one; it has tasks for evaluation."""
    return classic.EnvGroup([single_turn(), multi_turn()], env_names=["one", "two"])


def compared() -> classic.Environment:
    """A rubric that compares a group's rollouts."""
    return classic.SingleTurnEnv(
        dataset=_rows(), rubric=classic.Rubric([lambda completions: [0.0] * len(completions)])
    )


def with_a_key() -> classic.Environment:
    """An environment that needs a key."""
    classic.ensure_keys(["WEATHER_KEY"])
    raise AssertionError


def from_a_network() -> classic.Environment:
    """An environment whose data comes from a network."""
    try:
        raise ConnectionError("hub.example does not answer")
    except ConnectionError as error:
        raise RuntimeError("no data") from error


class QuestionData(vf.TaskData):
    answer: str


class QuestionTask(vf.Task[QuestionData, vf.State, vf.TaskConfig]):
    @vf.reward
    async def right(self, trace: Any) -> float:
        return float(self.data.answer in (trace.last_reply or ""))


class QuestionsConfig(vf.TasksetConfig):
    ending: str = ""


class Questions(vf.Taskset[QuestionTask, QuestionsConfig]):
    """Questions without an end."""

    INFINITE = True

    def load(self) -> Iterator[QuestionTask]:
        number = 0
        while True:
            data = QuestionData(idx=number, prompt=f"goal {number}{self.config.ending}", answer="north")
            yield QuestionTask(data, self.config.task)
            number += 1


class PenniesConfig(vf.EnvConfig):
    even: vf.AgentConfig = vf.AgentConfig()
    odd: vf.AgentConfig = vf.AgentConfig()


class Pennies(vf.Env[PenniesConfig]):
    """Matching pennies, of two rounds: the player `even` wins if both say the same. It plays the tasks of Questions."""

    async def run(self, task: Any, agents: Any) -> None:
        opening = vf.Task(vf.TaskData(idx=task.data.idx, prompt=None))
        won = 0
        async with agents.even.interaction(opening) as even, agents.odd.interaction(opening) as odd:
            for _ in range(2):
                first, second = await even.turn("heads or tails"), await odd.turn("heads or tails")
                won += 1 if first.last_reply == second.last_reply else -1
        even.trace.record_reward("won", won)
        odd.trace.record_reward("won", -won)


__all__ = ["Pennies", "Questions"]
