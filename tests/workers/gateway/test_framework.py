"""A public agent framework through the gateway: use of tools, and training."""

import asyncio
from pathlib import Path

import pytest
from openai import AsyncOpenAI

from tests.workers.gateway.framework_agents import Calculator
from tests.workers.gateway.playing import TOKENIZER, Scripted, make_session
from tests.workers.gateway.test_agent_workflow import attempt
from tests.workers.running import curve, events
from training_core.llm.agents.session import write_episode
from workers.driver.attempt import run_attempt
from workers.gateway.gateway import Gateway


def test_its_tool_loop_is_one_sequence_of_tokens(gateway: Gateway) -> None:
    """The policy calls the tool, the framework runs it, the policy answers: two calls, one segment, exact ids."""
    call = '<tool_call>\n{"name": "add", "arguments": {"a": 3, "b": 4}}\n</tool_call>'
    policy = Scripted(call, "It is 7")
    session = make_session(policy)

    async def play() -> float:
        async with AsyncOpenAI(base_url=gateway.open(session), api_key=session.key, max_retries=0) as client:
            return await Calculator().run({"a": 3, "b": 4}, client=client)

    reward = asyncio.run(play())
    assert reward == 1.0
    session.reward({"reward": reward})
    session.close()
    (turn,) = write_episode(session, 1.0).turns
    answer = turn.candidates[0].answer
    end = [TOKENIZER.eos_token_id]
    asked = TOKENIZER(call, add_special_tokens=False)["input_ids"] + end
    said = TOKENIZER("It is 7", add_special_tokens=False)["input_ids"] + end
    assert answer.learnt(answer.token_ids) == asked + said
    assert policy.prompts[1].token_ids == turn.prompt_ids + answer.token_ids[: -len(said)]
    between = TOKENIZER.decode(answer.token_ids[len(asked) : -len(said)])
    assert "<tool_response>\n7\n</tool_response>" in between
    seen = TOKENIZER.decode(turn.prompt_ids)
    assert "Use the tool." in seen and "The sum of two numbers." in seen


@pytest.mark.extended
def test_an_agent_of_the_framework_learns(little_model: Path, tmp_path: Path) -> None:
    overrides = {
        "workflow.path": "tests.workers.gateway.framework_agents:Walker",
        "run.iterations": 10,
        "rollout.group_size": 8,
        "resources.environments_per_worker": 24,
        "evaluation.every": 0,
        "checkpoint.every": 0,
    }
    assert run_attempt(attempt(tmp_path, little_model, **overrides), local=True) == 0
    values = curve(tmp_path)
    returns = [values["train/return", step] for step in range(1, 11)]
    assert sum(returns[-3:]) > sum(returns[:3]) + 0.6, returns
    assert not any(event["failed"] for event in events(tmp_path, "episode"))
