"""Episodes whose agent ends with an error: failed, or with the reward of workflow.failure_reward."""

import asyncio
import logging
from typing import Any

import aiohttp
import httpx
import httpx2
import openai
import pytest

from tests.workers.gateway.playing import Recorded, Scripted, make_gateway, make_session
from training_core.config.files import load_config
from training_core.config.rollout import Agent
from training_core.errors import EnvironmentFailure, is_infrastructure
from training_core.llm.agents.session import Session, end_failed, write_episode
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.llm.workflows.agent import _run_local_agents
from training_core.types import Episode
from workers.gateway.gateway import Gateway

ASK: dict[str, Any] = {"model": "solver", "messages": [{"role": "user", "content": "What is the weather?"}]}


def post(address: str, **body: Any) -> httpx.Response:
    return httpx.post(address, json=body, trust_env=False, timeout=60)


def trained_tokens(episode: Episode) -> int:
    return sum(candidate.answer.trained_tokens for turn in episode.turns for candidate in turn.candidates)


def played(gateway: Gateway, kind: str, **workflow: Any) -> tuple[Session, Episode]:
    """An episode of the agent `Mistaken`."""
    session = make_session(Scripted("seven"))
    section = Agent(path="tests.workers.gateway.agents:Mistaken", args={"kind": kind}, **workflow)
    asyncio.run(_run_local_agents([session], load_config("plan_path_duo"), section, gateway))
    gateway.withdraw([session])
    return session, write_episode(session, 0.5)


def test_a_mistake_of_the_policy_counts_as_the_failure_reward(gateway: Gateway) -> None:
    session, episode = played(gateway, "policy", failure_reward=-1.0)
    assert (episode.failed, episode.success, episode.outcome) == (
        False,
        False,
        "ValueError: there is no tool 'rm'",
    )
    assert episode.role_return("solver") == -1.0, "rewards of calls before the mistake do not count"
    assert episode.siblings == "s" and trained_tokens(episode) > 0
    assert session.outcome.failure


@pytest.mark.parametrize("kind", ["policy", "connection", "before", "slow"])
def test_other_episodes_with_an_error_fail(gateway: Gateway, kind: str) -> None:
    """Without a failure reward, without an answer, and for reasons that are not the policy's."""
    reward = None if kind == "policy" else 0.0
    _, episode = played(gateway, kind, failure_reward=reward, timeout=0.5 if kind == "slow" else 60.0)
    assert episode.failed


def test_a_full_context_is_counted_unless_the_agent_goes_on_with_a_shorter_prompt(
    gateway: Gateway, engine: TorchEngine
) -> None:
    long = {**ASK, "messages": [{"role": "user", "content": "weather " * 600}]}
    reasons = []
    for requests in ((ASK, long), (long, ASK)):
        session = make_session(Recorded(engine))
        address = gateway.open(session).removesuffix("/v1")
        codes = [post(f"{address}/v1/chat/completions", **each).status_code for each in requests]
        assert sorted(codes) == [200, 400]
        post(f"{address}/reward", reward=1.0)
        gateway.withdraw([session])
        reasons.append(write_episode(session, 0.5).overlong)
    assert "no room for an answer in the model's context" in reasons[0] and reasons[1] == ""


def test_external_agents_report_failures() -> None:
    gateway = make_gateway(failure_reward=-0.5)
    try:
        for infrastructure in (False, True):
            session = make_session(Scripted("seven"))
            address = gateway.open(session).removesuffix("/v1")
            post(f"{address}/v1/chat/completions", **ASK)
            post(f"{address}/reward", reward=1.0, success=True)
            assert post(f"{address}/close", error="no tool", infrastructure=infrastructure).status_code == 200
            episode = write_episode(session, -1.0)
            assert episode.failed == infrastructure and not episode.success
            assert infrastructure or episode.role_return("solver") == -0.5
    finally:
        gateway.close()


def chained(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("no such tool"), False),
        (chained(RuntimeError("agent"), KeyError("x")), False),
        (httpx.HTTPStatusError("", request=None, response=httpx.Response(400)), False),  # type: ignore[arg-type]
        (httpx.HTTPStatusError("", request=None, response=httpx.Response(503)), True),  # type: ignore[arg-type]
        (httpx.ReadTimeout("slow"), True),
        (httpx2.RemoteProtocolError("the server has disconnected"), True),
        (aiohttp.ServerDisconnectedError(), True),
        (openai.APIConnectionError(request=httpx.Request("POST", "http://gateway")), True),
        (TimeoutError(), True),
        (MemoryError(), True),
        (ImportError("no module"), True),
        (EnvironmentFailure("broken"), True),
        (chained(RuntimeError("agent"), ConnectionResetError()), True),
        (ExceptionGroup("tools", [ValueError("x"), ConnectionError()]), True),
    ],
)
def test_errors_of_the_infrastructure(error: Exception, expected: bool) -> None:
    assert is_infrastructure(error) == expected


@pytest.mark.parametrize("reward", [None, 0.0])
def test_a_stored_error_has_no_key(gateway: Gateway, reward: float | None) -> None:
    session = make_session(Scripted("seven"))
    address = gateway.open(session)
    post(f"{address}/chat/completions", **ASK)
    end_failed(session, f"Client error '404 Not Found' for url '{address}/responses'", reward)
    episode = write_episode(session, 1.0)
    assert (
        session.key not in episode.error + episode.outcome
        and "/episodes/<key>/" in episode.error + episode.outcome
    )


@pytest.mark.parametrize(
    "path", ["responses/resp_1", "messages/batches", "embeddings", "v1/chat/completions", "nothing"]
)
def test_unknown_paths_name_a_remedy_and_no_key(gateway: Gateway, path: str) -> None:
    session = make_session(Scripted("seven"))
    answer = post(f"{gateway.open(session)}/{path}")
    assert answer.status_code == 404
    assert session.key not in answer.text
    assert any(remedy in answer.text.replace(path, "") for remedy in ("POST", "compute them elsewhere"))


def test_internal_errors_are_logged_without_the_key(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    session = make_session(Scripted("seven"))
    address = gateway.open(session)
    monkeypatch.setattr("workers.gateway.answering.normalise_message", None)
    with caplog.at_level(logging.ERROR, "workers.gateway.app"):
        assert post(f"{address}/chat/completions", **ASK).status_code == 500
    assert session.key not in caplog.text and "/episodes/<key>/v1/chat/completions failed" in caplog.text


def test_messages_of_checks_have_no_prefix(gateway: Gateway) -> None:
    address = gateway.open(make_session(Scripted("seven")))
    refused = post(f"{address}/chat/completions", **ASK | {"continue_final_message": True})
    assert refused.json()["error"]["message"].startswith("continue_final_message: ")


def test_a_key_is_read_from_anthropics_header(gateway: Gateway) -> None:
    session = make_session(Scripted("seven"))
    gateway.open(session)
    models = httpx.get(f"{gateway.url}/v1/models", headers={"x-api-key": session.key}, trust_env=False)
    assert models.status_code == 200
