"""Malformed requests over HTTP to a real server: each is refused with a 4xx, and the episode continues."""

import json
import random
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.workers.gateway.playing import TOKENIZER, Recorded, make_session
from training_core.llm.agents.session import Session, write_episode
from training_core.llm.generation.torch_engine import TorchEngine
from workers.gateway.gateway import Gateway

HUGE = 10**400
DEEP = "[" * 3000 + "]" * 3000
JUNK: list[Any] = [
    None, True, False, 0, -1, 1.5, 10**18, HUGE, "", "zz", "\u0000", "é" * 300, [], [[]], ["x"], [None], [1, [2]], {}, {"x": {}},
    {"role": "user"}, [{"role": ["x"]}], "NaN",
]  # fmt: skip
"""Values that are put in the place of every field."""
USER: dict[str, Any] = {"role": "user", "content": "What is the weather?"}
CALLED: dict[str, Any] = {
    "role": "assistant", "content": None,
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}],
}  # fmt: skip
CHAT: dict[str, Any] = {
    "model": "solver",
    "messages": [USER, CALLED, {"role": "tool", "content": "7"}],
    "max_tokens": 2,
}
FIELDS = [
    "model", "n", "seed", "stop", "stream", "stream_options", "temperature", "top_p", "presence_penalty",
    "frequency_penalty", "logit_bias", "return_token_ids", "on_update", "max_tokens",
]  # fmt: skip
CHAT_FIELDS = [
    *FIELDS, "messages", "max_completion_tokens", "logprobs", "top_logprobs", "tools", "tool_choice", "response_format",
    "continue_final_message",
]  # fmt: skip
TEXT_FIELDS = [*FIELDS, "prompt", "logprobs", "echo"]
TEXT_PART = {"type": "text", "text": "x"}
RESPONSES: dict[str, Any] = {
    "model": "solver", "instructions": "x", "max_output_tokens": 2, "tool_choice": "auto", "text": {"format": {"type": "text"}},
    "tools": [{"type": "function", "name": "add", "parameters": {}}], "conversation": None, "temperature": 1.0, "n": 1,
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]},
        {"type": "function_call", "call_id": "c", "name": "add", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "7"},
    ],
}  # fmt: skip
MESSAGES: dict[str, Any] = {
    "model": "solver", "system": [TEXT_PART], "max_tokens": 2, "stop_sequences": ["x"], "tool_choice": {"type": "auto"}, "n": 1,
    "tools": [{"type": "custom", "name": "add", "input_schema": {}}],
    "messages": [
        {"role": "user", "content": [TEXT_PART]},
        {"role": "assistant", "content": [TEXT_PART, {"type": "tool_use", "id": "c", "name": "add", "input": {"a": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [TEXT_PART]}]},
    ],
}  # fmt: skip
Request = tuple[str, bytes]


@pytest.fixture
def session(engine: TorchEngine) -> Session:
    return make_session(Recorded(engine))


def chats() -> Iterator[dict[str, Any]]:
    """Conversations with one thing wrong."""
    for field in CHAT_FIELDS:
        yield from (CHAT | {field: junk} for junk in JUNK)
    for name in ("role", "content", "tool_calls", "tool_call_id", "name"):
        yield from (CHAT | {"messages": [USER | {name: junk}]} for junk in JUNK)
        yield from (CHAT | {"messages": [USER, CALLED | {name: junk}]} for junk in JUNK)
    for junk in JUNK:
        yield CHAT | {"messages": [USER | {"content": [{"type": "text", "text": junk}]}]}
        yield CHAT | {"messages": [USER | {"content": [{"type": junk, "text": "x"}]}]}
        yield CHAT | {"messages": [USER, CALLED | {"tool_calls": [junk]}]}
        yield CHAT | {"messages": [USER, CALLED | {"tool_calls": [{"id": junk, "function": {"name": "f"}}]}]}
        yield CHAT | {"messages": [USER, CALLED | {"tool_calls": [{"function": junk}]}]}
        yield CHAT | {"messages": [USER, CALLED | {"tool_calls": [{"function": {"name": junk}}]}]}
        yield CHAT | {
            "messages": [USER, CALLED | {"tool_calls": [{"function": {"name": "f", "arguments": junk}}]}]
        }
        yield CHAT | {"tools": [junk]}
        yield CHAT | {"tools": [{"type": "function", "function": {"name": "f", "parameters": junk}}]}


def texts() -> Iterator[dict[str, Any]]:
    """Text completions with one thing wrong, ids outside the vocabulary among them."""
    for field in TEXT_FIELDS:
        yield from (
            {"model": "solver", "prompt": "three plus", "max_tokens": 2, field: junk} for junk in JUNK
        )
    size = len(TOKENIZER)
    for prompt in (
        [99999999], [size], [-1], [True], [1.0], ["1", 2], [[5], [size]], [[5], []], [[5, [6]]], [HUGE], [2**63], [5] * 5000,
        "three " * 5000, [None], [{}],
    ):  # fmt: skip
        yield {"model": "solver", "prompt": prompt, "max_tokens": 2}


def mutations(value: Any) -> Iterator[Any]:
    """A body with each of its parts replaced by junk."""
    yield from JUNK
    places = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for place, part in places:
        for junk in mutations(part):
            copy = value.copy()
            copy[place] = junk
            yield copy


def others() -> Iterator[Request]:
    """Rewards, ends with a wrong reward, and bodies that are no requests at all."""
    for junk in JUNK:
        if junk not in (None, True, False, 0, -1, 1.5, 10**18):
            yield "/reward", encoded({"reward": junk})
            yield "/close", encoded({"reward": junk})
        yield "/reward", encoded({"rewards": junk})
        yield "/reward", encoded({"rewards": {"solver": [junk]}})
        yield "/reward", encoded({"rewards": {str(junk)[:9]: 1.0}})
        yield "/reward", encoded({"success": junk, "outcome": junk})
    bodies = [
        b"{", b"\xff\xfe", b"null", b"[]", b"3", b'"x"', DEEP.encode(), b'{"messages": ' + DEEP.encode() + b"}", b"NaN",
        b'{"model": "solver", "messages": [{"role": "user", "content": "\\ud800"}]}', b'{"prompt": "\\uDFFF"}',
        b'{"messages": [{"role": "\\ud83d", "content": "x"}]}',
    ]  # fmt: skip
    for path in ("/v1/chat/completions", "/v1/completions", "/reward"):
        yield from ((path, body) for body in bodies)
    yield from (
        (path, b"{}")
        for path in ("/v1/responses", "/v1/messages", "/v1/embeddings", "/nowhere", "/episodes/x")
    )


def encoded(body: Any) -> bytes:
    return json.dumps(body).encode()


@pytest.mark.parametrize(
    "every", [pytest.param(5, marks=pytest.mark.extended), pytest.param(1, marks=pytest.mark.soak)]
)
def test_malformed_requests_are_refused_and_the_episode_completes(
    gateway: Gateway, engine: TorchEngine, session: Session, every: int
) -> None:
    """`every`: one request of so many is sent, of a shuffled list."""
    requests: list[Request] = [("/v1/chat/completions", encoded(body)) for body in chats()]
    requests += [("/v1/completions", encoded(body)) for body in texts()]
    requests += [("/v1/responses", encoded(body)) for body in mutations(RESPONSES)]
    requests += [("/v1/messages", encoded(body)) for body in mutations(MESSAGES)]
    requests += others()
    random.Random(0).shuffle(requests)
    requests = requests[::every]
    address = gateway.open(session).removesuffix("/v1")
    refused = 0
    with httpx.Client(trust_env=False, timeout=60) as http:
        for path, body in requests:
            answer = http.post(address + path, content=body)
            assert answer.status_code < 500, (path, body[:300], answer.text[:300])
            if answer.status_code >= 400:
                refused += 1
                error = answer.json()["error"]
                assert error["message"] and error["type"] == "invalid_request_error", (path, body[:300])
        assert refused > 400 / every and not session.done.done()
        made = http.post(f"{address}/v1/chat/completions", json={"model": "solver", "messages": [USER]})
        assert made.status_code == 200
        last = {"reward": 0.75, "rewards": {"solver": 0.0}, "success": True}
        assert http.post(f"{address}/reward", json=last).status_code == 200
        assert http.post(f"{address}/close", json={}).json() == {"closed": True, "failed": False, "error": ""}
    assert gateway._batcher is not None and gateway._batcher.failure is None
    gateway.withdraw([session])
    episode = write_episode(session, 0.5)
    assert episode.success and not episode.failed and len(episode.turns) > 0
    assert all(0 <= token < len(TOKENIZER) for turn in episode.turns for token in turn.prompt_ids)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_other_methods_and_paths_get_errors_in_the_apis_shape(gateway: Gateway, method: str) -> None:
    for path in ("/v1/chat/completions", "/nothing", "/episodes/none/reward"):
        answer = httpx.request(method, gateway.url + path, trust_env=False, timeout=60)
        assert answer.status_code in (404, 405)
        assert answer.json()["error"]["code"] == "not_found"


class Faulty:
    """An engine that breaks on prompts that hold one token, or on every prompt once it is `broken`."""

    def __init__(self, engine: TorchEngine, poison: int) -> None:
        self.engine, self.poison, self.broken = engine, poison, False

    def __call__(self, prompts: Any, settings: Any) -> Any:
        if self.broken or any(self.poison in prompt.token_ids for prompt in prompts):
            raise IndexError("index out of range in self")
        return self.engine.generate(prompts, settings)


def test_an_engine_failure_fails_only_its_request(gateway: Gateway, engine: TorchEngine) -> None:
    """Its neighbours in the batch are answered; only an engine that fails at everything fails the run."""
    poison = TOKENIZER("9", add_special_tokens=False)["input_ids"][0]
    policy = Faulty(engine, poison)
    session = make_session(policy)
    address = gateway.open(session)
    with httpx.Client(trust_env=False, timeout=60) as http:
        said = http.post(f"{address}/completions", json={"prompt": [[5, 6], [poison]], "max_tokens": 2})
        assert said.status_code == 500
        assert said.json()["error"]["code"] == "engine_failure"
        assert "IndexError: index out of range" in said.json()["error"]["message"]
        assert http.post(f"{address}/completions", json={"prompt": [5], "max_tokens": 2}).status_code == 200
        gateway.withdraw([])
        policy.broken = True
        said = http.post(f"{address}/completions", json={"prompt": [5], "max_tokens": 2})
        assert said.status_code == 503 and said.json()["error"]["type"] == "server_error"
    with pytest.raises(IndexError):
        gateway.withdraw([session])
