"""An episode's key: valid for its episode until it is closed, and in no log, error, transcript or event."""

import asyncio
import json
import logging
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI

from tests.workers.gateway.playing import TOKENIZER, Scripted, make_gateway, make_session
from training_core.config.files import load_config
from training_core.config.rollout import Agent
from training_core.llm.agents.session import Session, write_episode
from training_core.llm.workflows.agent import _run_local_agents
from workers.gateway.gateway import Gateway

ASK: dict[str, Any] = {"role": "user", "content": "What is the weather?"}
REQUESTS: dict[str, dict[str, Any]] = {
    "chat/completions": {"messages": [ASK]},
    "completions": {"prompt": "three"},
    "responses": {"input": [ASK]},
    "messages": {"messages": [ASK], "max_tokens": 4},
}
"""A request of each API."""


def post(address: str, body: Any, key: str = "") -> httpx.Response:
    headers = {"x-api-key": key} if "messages" in address else {"authorization": f"Bearer {key}"}
    return httpx.post(address, json=body, headers=headers if key else {}, trust_env=False, timeout=60)


@pytest.mark.parametrize("path", REQUESTS)
def test_a_key_is_valid_for_its_episode_until_that_is_closed(gateway: Gateway, path: str) -> None:
    mine, other = make_session(Scripted("seven", "four")), make_session(Scripted("one", "two"))
    gateway.open(mine)
    gateway.open(other)
    address = f"{gateway.url}/v1/{path}"
    assert post(address, REQUESTS[path], mine.key).status_code == 200
    assert len(mine.calls()) == 1 and other.calls() == []
    for wrong in ("", "ep-", gateway.token, mine.key[:-1], f"{mine.key}x", mine.key.upper()):
        assert post(address, REQUESTS[path], wrong).status_code == 401
    assert post(f"{gateway.url}/close", {"reward": 1.0}, mine.key).status_code == 200
    assert post(address, REQUESTS[path], mine.key).status_code == 409
    assert post(f"{gateway.url}/reward", {"reward": 5.0}, mine.key).status_code == 409
    assert mine.outcome.reward == 1.0 and not other.done.done()
    gateway.withdraw([mine])
    assert post(address, REQUESTS[path], mine.key).status_code == 401
    assert post(f"{gateway.url}/episodes", {}, other.key).status_code == 401, (
        "no key of an episode takes another"
    )


def transcript(session: Session) -> str:
    """All that remains of an episode: its turns with texts and token ids, its outcome, its error."""
    episode = write_episode(session, 1.0)
    prompts = [TOKENIZER.decode(turn.prompt_ids) for turn in episode.turns]
    return repr((episode, prompts, session.outcome))


@pytest.mark.parametrize("path", REQUESTS)
def test_a_key_is_in_no_answer_log_or_transcript(
    gateway: Gateway, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever the agent sends: a framework's error with the address is what its next message says."""
    caplog.set_level(logging.DEBUG, "workers")
    session = make_session(Scripted("seven", "four"))
    address = gateway.open(session)
    text = f"404 for {address}/tools"
    body = json.loads(json.dumps(REQUESTS[path]).replace("What is the weather?", text).replace("three", text))
    answers = [
        post(f"{address}/{path}", body | {session.key: session.key}),
        post(f"{address}/{path}", body | {"model": session.key, "stream": text}),
        post(f"{address}/{path}/{session.key}", body),
        post(f"{gateway.url}/{session.key}/v1/{path}", body),
        post(f"{gateway.url}/episodes/{session.key}x/v1/{path}", body),
        post(f"{address.removesuffix('/v1')}/reward", {"rewards": {session.key: 1.0}}),
        post(f"{address.removesuffix('/v1')}/reward", {"reward": 1.0, "outcome": text}),
        httpx.get(address.removesuffix("/v1"), trust_env=False),
        post(f"{address.removesuffix('/v1')}/close", {"error": text}),
    ]
    assert [answer.status_code for answer in answers] == [200, 400, 404, 404, 401, 400, 200, 200, 200]
    for answer in answers:
        assert session.key not in answer.text + str(answer.headers)
    seen = transcript(session)
    assert "404 for http" in seen and session.key not in seen
    assert session.key not in caplog.text


class Careless:
    """Asks, raises an error that quotes its key, and has a client that logs addresses."""

    async def run(self, data: dict[str, Any], *, client: AsyncOpenAI, **connection: Any) -> float:
        await client.chat.completions.create(model="solver", messages=[ASK])  # type: ignore[list-item]
        raise ValueError(f"no tool at {connection['base_url']} with {connection['api_key']}")


@pytest.mark.parametrize("reward", [None, 0.0])
def test_a_key_of_an_agent_in_the_run_is_in_no_log_or_transcript(
    caplog: pytest.LogCaptureFixture, reward: float | None
) -> None:
    caplog.set_level(logging.INFO)
    gateway = make_gateway()
    try:
        session = make_session(Scripted("seven"))
        section = Agent(path=f"{__name__}:Careless", failure_reward=reward)
        asyncio.run(_run_local_agents([session], load_config("plan_path_duo"), section, gateway))
        gateway.withdraw([session])
    finally:
        gateway.close()
    seen = transcript(session)
    assert "ValueError: no tool at" in seen and session.key not in seen + caplog.text
