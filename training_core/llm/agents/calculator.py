"""A tool-using agent: a model that may call a calculator, through OpenAI's chat API, before it answers.

A complete example of `workflow.path`: it plays the environments `arithmetic` and `dataset` and knows nothing of Troupe's
training. Replace the tool and the reward by your own.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from training_core.config.rewards import MathReward
from training_core.llm.environments.arithmetic import calculate
from training_core.llm.rewards.pool import reward_pool

TOOL = {
    "type": "function",
    "function": {
        "name": "calculate",
        "description": "The exact value of an expression of numbers, + - * / and brackets.",
        "parameters": {
            "type": "object",
            "properties": {"expression": {"type": "string"}},
            "required": ["expression"],
        },
    },
}


class CalculatorAgent:
    """Plays one task: at most `calls` answers, each a call of the calculator or the final answer."""

    def __init__(self, calls: int = 4) -> None:
        self.calls = calls

    async def run(self, data: Mapping[str, Any], *, client: Any, **extra: Any) -> float:
        """The reward: 1 for a correct final answer, 0 for a wrong one or none. `client` is an openai.AsyncOpenAI."""
        messages = list(data["messages"])
        for _ in range(self.calls):
            completion = await client.chat.completions.create(
                model="default", messages=messages, tools=[TOOL]
            )
            message = completion.choices[0].message
            if not message.tool_calls:
                return await asyncio.to_thread(reward, message.content or "", data)
            messages.append(message.model_dump(exclude_none=True))
            messages += [
                {"role": "tool", "tool_call_id": call.id, "content": used(call.function)}
                for call in message.tool_calls
            ]
        return 0.0


def used(function: Any) -> str:
    """The tool's answer to a call, an error included: the policy learns from it."""
    try:
        expression = json.loads(function.arguments)["expression"]
    except (ValueError, KeyError, TypeError):
        return "error: the tool is calculate, with the argument expression"
    value = calculate(str(expression)) if function.name == TOOL["function"]["name"] else None  # type: ignore[index]
    return "error: not an expression of numbers, + - * / and brackets" if value is None else str(value)


def reward(answer: str, data: Mapping[str, Any]) -> float:
    """1 if the final answer equals the line's label, or the value of the generated problem."""
    label = data["label"] if "label" in data else calculate(data["title"])
    result = reward_pool(MathReward()).score(
        {"prompt": "", "completions": answer, "prompt_ids": [], "completion_ids": [], "label": str(label)}
    )
    return result.reward or 0.0
