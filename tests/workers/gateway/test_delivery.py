"""Answers on their way to the client: what UTF-8 cannot encode, and clients that have gone."""

import json
import threading
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from tests.workers.gateway.playing import Scripted, make_session
from training_core.llm.agents.session import Session
from training_core.llm.generation.base import SamplingSettings
from training_core.types import Answer, Prompt
from workers.gateway.answering import as_received, encoded, event
from workers.gateway.gateway import Gateway

ASK: dict[str, Any] = {"model": "solver", "messages": [{"role": "user", "content": "What is the weather?"}]}
TOOLS = [{"type": "function", "function": {"name": "say", "parameters": {"type": "object"}}}]
HOSTILE = [
    '<tool_call>{"name":"say","arguments":{"x":"\\ud83d"}}</tool_call>',
    '<tool_call>{"name":"\\ud83d","arguments":{}}</tool_call>',
    '<tool_call>{"name":"say","arguments":{"x":NaN}}</tool_call>',
    f'<tool_call>{{"name":"say","arguments":{{"x":{"[" * 4000 + "]" * 4000}}}}}</tool_call>',
]


def test_every_document_is_encoded() -> None:
    document = {"content": "a\ud83d b", "deep": [{"é": "\udfff"}]}
    assert json.loads(encoded(document).decode()) == {"content": "a? b", "deep": [{"é": "?"}]}
    assert as_received(document) == json.loads(event(document).decode().removeprefix("data: "))


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("stream", [False, True])
def test_whatever_a_policy_answers_is_delivered(gateway: Gateway, text: str, stream: bool) -> None:
    session = make_session(Scripted(text, "seven"))
    address = f"{gateway.open(session)}/chat/completions"
    answer = httpx.post(address, json=ASK | {"tools": TOOLS, "stream": stream}, trust_env=False)
    assert answer.status_code == 200
    if stream:
        *chunks, end = answer.content.decode().strip().split("\n\n")
        assert end == "data: [DONE]" and all(json.loads(chunk.removeprefix("data: ")) for chunk in chunks)
        return
    message = json.loads(answer.content.decode())["choices"][0]["message"]
    history = [*ASK["messages"], message, {"role": "user", "content": "more"}]
    httpx.post(address, json=ASK | {"tools": TOOLS, "messages": history}, trust_env=False).raise_for_status()
    assert session.calls()[-1][1].parent is not None, "the history continues from the answer as delivered"


class Held(Scripted):
    """A policy that answers once it is released."""

    def __init__(self, *texts: str) -> None:
        super().__init__(*texts)
        self.released = threading.Event()

    def __call__(self, prompts: Sequence[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
        assert self.released.wait(60)
        return super().__call__(prompts, settings)


def abandon(address: str, policy: Held, session: Session, body: dict[str, Any]) -> None:
    """Make a call, give it up before it is answered, and wait for its answer."""
    with httpx.Client(trust_env=False, timeout=0.2) as http, pytest.raises(httpx.ReadTimeout):
        http.post(address, json=body)
    policy.released.set()
    while not session.calls():
        threading.Event().wait(0.01)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["chat/completions", "completions"])
def test_an_answer_that_nobody_received_is_marked(gateway: Gateway, stream: bool, path: str) -> None:
    """It stays in the transcript."""
    policy = Held("nobody", "seven")
    session = make_session(policy)
    base = gateway.open(session)
    body = (ASK if path.startswith("chat") else {"prompt": "three plus"}) | {"stream": stream}
    abandon(f"{base}/{path}", policy, session, body)
    httpx.post(f"{base}/chat/completions", json=ASK, trust_env=False).raise_for_status()
    assert [(call.answers[0].text, call.received) for _, call in session.calls()] == [
        ("nobody", False),
        ("seven", True),
    ]


def test_answers_before_a_failed_prompt_are_not_received(gateway: Gateway) -> None:
    """The prompts of a text completion are answered one after the other; the client gets all answers or an error."""

    class FailsAtSecond(Scripted):
        def __call__(self, prompts: Sequence[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
            if len(prompts[0].token_ids) > 1:
                raise IndexError("out of range")
            return super().__call__(prompts, settings)

    session = make_session(FailsAtSecond("one", "trial"))
    address = f"{gateway.open(session)}/completions"
    answer = httpx.post(address, json={"prompt": [[5], [6, 7]]}, trust_env=False)
    assert answer.status_code == 500
    ((_, call),) = session.calls()
    assert not call.received
