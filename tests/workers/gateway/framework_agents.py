"""Agents built on the OpenAI Agents SDK, as a user of that framework would build them."""

from typing import Any

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

set_tracing_disabled(True)  # it would send traces to its maker


@function_tool
def add(a: int, b: int) -> str:
    """The sum of two numbers."""
    return str(a + b)


class Calculator:
    """Has a tool, and is paid where its answer ends with the sum."""

    async def run(self, data: dict[str, Any], *, client: AsyncOpenAI, **kwargs: Any) -> float:
        model = OpenAIChatCompletionsModel(model="solver", openai_client=client)
        agent = Agent(name="calculator", instructions="Use the tool.", model=model, tools=[add])
        result = await Runner.run(agent, f"What is {data['a']} plus {data['b']}?")
        return float(str(result.final_output).endswith(str(data["a"] + data["b"])))


class Walker:
    """A planner that hands its plan to an executor, each an agent of the framework; "north" and "up" pay."""

    async def run(self, data: dict[str, Any], *, client: AsyncOpenAI, **kwargs: Any) -> float:
        said = ""
        for role in ("planner", "executor"):
            model = OpenAIChatCompletionsModel(model=role, openai_client=client)
            result = await Runner.run(Agent(name=role, model=model), data["observations"][role] + said)
            said += f" {result.final_output}"
        return (said.split().count("north") + said.split().count("up")) / 8
