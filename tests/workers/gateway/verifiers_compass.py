"""A taskset of verifiers whose tasks have a tool: a server in a process of its own, which is this module. It needs that package."""

from collections.abc import Iterator
from typing import Any

import verifiers.v1 as vf


class Compass(vf.Toolset[vf.ToolsetConfig, vf.State]):
    """The tool's server."""

    @vf.tool
    async def look(self) -> str:
        """The direction of the goal."""
        return "north"


class GoalTask(vf.Task[vf.TaskData, vf.State, vf.TaskConfig]):
    """Rewards the tool's answer in the last answer."""

    @classmethod
    def toolsets(cls, config: vf.TaskConfig) -> list[Any]:
        return [Compass(vf.ToolsetConfig())]

    @vf.reward
    async def right(self, trace: Any) -> float:
        told = [message.content for message in trace.branches[-1].messages if message.role == "tool"]
        return float(len(told)) if told and "north" in str(told[0]) else 0.0


class Goals(vf.Taskset[GoalTask, vf.TasksetConfig]):
    """Some tasks."""

    def load(self) -> Iterator[GoalTask]:
        for number in range(4):
            yield GoalTask(vf.TaskData(idx=number, prompt="Find the goal."), self.config.task)


__all__ = ["Goals"]

if __name__ == "__main__":
    Compass.run()
