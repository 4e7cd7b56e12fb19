"""Every field of a request is applied, refused, or named in x-troupe-ignored."""

import logging
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.training_core.llm.learning.chat_tokenizers import WITH_DEFAULT_SYSTEM, chat_tokenizer
from tests.workers.gateway.playing import Recorded, Scripted, make_gateway, make_session
from training_core.llm.agents.session import Session
from training_core.llm.generation.rendering import Renderer
from training_core.llm.generation.torch_engine import TorchEngine
from workers.gateway.gateway import Gateway

ASK: dict[str, Any] = {"model": "solver", "messages": [{"role": "user", "content": "What is the weather?"}]}
NAMED: dict[str, Any] = {
    "temperature": 0.1, "top_p": 0.5, "top_k": 5, "min_p": 0.1, "repetition_penalty": 1.3, "presence_penalty": 1.0,
    "frequency_penalty": 0.5, "logit_bias": {"5": 1.0}, "stop_token_ids": [3], "min_tokens": 3, "ignore_eos": True,
    "bad_words": ["a"], "best_of": 4, "top_logprobs": 2, "add_generation_prompt": False, "truncate_prompt_tokens": 5,
    "chat_template_kwargs": {"enable_thinking": False}, "reasoning_effort": "high", "tool_choice": "required",
    "parallel_tool_calls": False, "response_format": {"type": "json_object"}, "guided_json": {"type": "object"},
    "structured_outputs": {"choice": ["yes"]}, "functions": [{"name": "f"}], "function_call": {"name": "f"}, "user": "x",
}  # fmt: skip
"""Values that ask for something else than the gateway does."""
AGREED: dict[str, Any] = {
    "temperature": 0.9, "top_p": 1, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0, "logit_bias": {},
    "tool_choice": "auto", "parallel_tool_calls": True, "response_format": {"type": "text"}, "top_logprobs": 0, "functions": [],
    "stream_options": {"include_usage": True},
}  # fmt: skip
"""Values that ask for what it does anyway."""


@pytest.fixture
def session(engine: TorchEngine) -> Session:
    return make_session(Recorded(engine), temperature=0.9, max_tokens=3)


def post(address: str, path: str = "/chat/completions", **fields: Any) -> httpx.Response:
    return httpx.post(address + path, json=ASK | {"seed": 1} | fields, trust_env=False, timeout=60)


def test_fields_that_are_not_applied_are_named_and_logged_once(
    gateway: Gateway, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    address = gateway.open(session)
    caplog.set_level(logging.WARNING, "workers.gateway.app")
    plain = post(address, return_token_ids=True)
    for field, value in NAMED.items():
        for _ in range(2):
            answer = post(address, return_token_ids=True, **{field: value})
            assert (answer.status_code, answer.headers["x-troupe-ignored"]) == (200, field)
            assert answer.json()["choices"][0]["token_ids"] == plain.json()["choices"][0]["token_ids"]
        assert sum(record.message.startswith(f"a request has {field} = ") for record in caplog.records) == 1
    agreed = post(address, **AGREED)
    assert agreed.status_code == 200 and "x-troupe-ignored" not in agreed.headers
    several = post(address, stream=True, **NAMED)
    assert set(several.headers["x-troupe-ignored"].split(", ")) == NAMED.keys()


def test_fields_of_sections_and_odd_names_are_named(gateway: Gateway, session: Session) -> None:
    address = gateway.open(session)
    message = ASK["messages"][0] | {"reasoning_content": "hm", "audio": None}
    options = {"include_usage": True, "continuous_usage_stats": True}
    answer = post(address, messages=[message], stream_options=options, **{"a\r\nb: é": 1})
    assert set(answer.headers["x-troupe-ignored"].split(", ")) == {
        "messages.reasoning_content",
        "stream_options.continuous_usage_stats",
        "a??b???",
    }
    many = post(address, **{f"field_{number}": 1 for number in range(1000)})
    assert many.status_code == 200 and len(many.headers["x-troupe-ignored"]) <= 4096
    text = post(address, "/completions", prompt="three plus", logprobs=5, suffix="x")
    assert set(text.headers["x-troupe-ignored"].split(", ")) == {"messages", "logprobs", "suffix"}


@pytest.mark.parametrize("strict", [False, True])
def test_a_role_that_the_template_refuses_is_named(strict: bool) -> None:
    """In the dialects alike; system messages at the start are joined without a word."""
    tokenizer = chat_tokenizer(WITH_DEFAULT_SYSTEM)
    tokenizer.chat_template = (
        "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('one') }}{% endif %}"
        "{{ m.role }} {{ m.content }}\n{% endfor %}"
    )
    policy = Scripted(*["seven"] * 3)
    session = make_session(policy)
    client = replace(session.spec.clients["solver"], renderer=Renderer(tokenizer))
    session = Session(replace(session.spec, clients={"solver": client}))
    gateway = make_gateway(strict=strict)
    user, late = ASK["messages"][0], {"role": "developer", "content": "late"}
    try:
        address = gateway.open(session)
        joined = post(address, "/responses", instructions="A", input=[late, user], messages=None)
        assert joined.status_code == 200 and "x-troupe-ignored" not in joined.headers
        chat = post(address, messages=[user, late, user])
        items = post(address, "/responses", input=[user, late], messages=None)
        if strict:
            assert [chat.status_code, items.status_code] == [400, 400]
            assert "messages.role" in chat.json()["error"]["message"] and len(policy.prompts) == 1
        else:
            named = [answer.headers["x-troupe-ignored"] for answer in (chat, items)]
            assert named == ["messages.role", "input.role"]
    finally:
        gateway.close()


def test_strict_refuses_fields_that_are_not_applied() -> None:
    strict = make_gateway(strict=True)
    try:
        session = make_session(Scripted("seven", "seven"), temperature=0.9, max_tokens=3)
        address = strict.open(session)
        for field, value in NAMED.items():
            refused = post(address, **{field: value})
            assert (refused.status_code, field in refused.json()["error"]["message"]) == (400, True)
        assert session.calls() == []
        assert post(address, **AGREED).status_code == 200
    finally:
        strict.close()


@pytest.mark.parametrize(
    "field",
    [
        "model", "n", "seed", "stop", "stream", "stream_options", "temperature", "logit_bias", "return_token_ids", "on_update",
        "max_tokens", "logprobs", "top_logprobs", "tools", "tool_choice", "response_format", "continue_final_message", "other",
    ],
)  # fmt: skip
def test_null_counts_as_absent(gateway: Gateway, field: str) -> None:
    answer = post(gateway.open(make_session(Scripted("seven"))), **{field: None})
    assert answer.status_code == 200 and "x-troupe-ignored" not in answer.headers


def test_refusal_parts_are_text(gateway: Gateway) -> None:
    policy = Scripted("seven")
    session = make_session(policy)
    refusal = {"role": "assistant", "content": [{"type": "refusal", "refusal": "no, never"}]}
    assert (
        post(gateway.open(session), messages=[*ASK["messages"], refusal, *ASK["messages"]]).status_code == 200
    )
    assert "no, never" in session.conversations["solver"].renderer.decode(policy.prompts[0].token_ids)


def test_reports_with_other_fields_are_refused(gateway: Gateway) -> None:
    session = make_session(Scripted("seven"))
    address = gateway.open(session).removesuffix("/v1")
    for path in ("/reward", "/close"):
        answer = httpx.post(address + path, json={"rewrad": 1.0}, trust_env=False)
        assert answer.status_code == 400 and "'rewrad'" in answer.json()["error"]["message"]
    assert not session.done.done() and not session.outcome.rewarded


def test_an_end_without_a_reward_keeps_success_and_outcome(gateway: Gateway) -> None:
    session = make_session(Scripted("seven"))
    address = gateway.open(session).removesuffix("/v1")
    httpx.post(f"{address}/reward", json={"reward": 0.5}, trust_env=False)
    httpx.post(f"{address}/close", json={"success": True, "outcome": "solved"}, trust_env=False)
    again = httpx.post(f"{address}/close", json={"error": "late"}, trust_env=False).json()
    assert again == {"closed": True, "failed": False, "error": ""}, "as the run counts it"
    own = httpx.get(f"{gateway.url}/", headers={"Authorization": f"Bearer {session.key}"}, trust_env=False)
    assert own.json() == httpx.get(address, trust_env=False).json()
    outcome = session.done.result()
    assert (outcome.reward, outcome.success, outcome.text, outcome.error) == (0.5, True, "solved", "")
