"""The tool-using agent of the preset qwen3_tools, with a scripted policy behind the real gateway."""

import asyncio
from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.workers.gateway.playing import TOKENIZER, Scripted, make_session
from training_core.llm.agents.calculator import CalculatorAgent
from workers.gateway.gateway import Gateway

CALL = '<tool_call>\n{{"name": "calculate", "arguments": {{"expression": "{}"}}}}\n</tool_call>'
TASK = {"title": "1 / 4 + 3", "messages": [{"role": "user", "content": "What is 1 / 4 + 3?"}]}


def played(gateway: Gateway, data: dict[str, Any], *answers: str, calls: int = 4) -> tuple[float, Scripted]:
    """The reward, and the policy with the prompts that it has seen."""
    policy = Scripted(*answers)
    session = make_session(policy)

    async def play() -> float:
        async with AsyncOpenAI(base_url=gateway.open(session), api_key=session.key, max_retries=0) as client:
            return await CalculatorAgent(calls).run(data, client=client)

    return asyncio.run(play()), policy


@pytest.mark.parametrize(
    ("data", "answer", "reward"),
    [
        (TASK, "It is 13/4.", 1.0),
        (TASK, "It is 3.", 0.0),
        (TASK | {"label": "12 of 4 is #### 3"}, "The answer is 3.", 1.0),
    ],
)
def test_the_final_answer_is_compared_with_the_label_or_the_value(
    gateway: Gateway, data: dict[str, Any], answer: str, reward: float
) -> None:
    assert played(gateway, data, CALL.format("1/4 + 3"), answer)[0] == reward


@pytest.mark.parametrize(
    ("expression", "result"), [("1/4 + 3", "13/4"), ("__import__('os')", "error: not an expression")]
)
def test_the_policy_sees_the_tools_result(gateway: Gateway, expression: str, result: str) -> None:
    _, policy = played(gateway, TASK, CALL.format(expression), "It is 13/4.")
    assert f"<tool_response>\n{result}" in TOKENIZER.decode(policy.prompts[1].token_ids)


def test_calls_without_an_answer_end_without_a_reward(gateway: Gateway) -> None:
    reward, policy = played(gateway, TASK, *[CALL.format("1")] * 3, calls=2)
    assert reward == 0.0 and len(policy.prompts) == 2
