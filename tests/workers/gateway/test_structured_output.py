"""JSON schemas and forced tools of all dialects: every answer of an untrained model satisfies them, and nothing is ignored."""

import json
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.workers.gateway.playing import make_session
from training_core.llm.agents.session import Session
from training_core.llm.generation.torch_engine import TorchEngine
from workers.gateway.app import HEADER
from workers.gateway.gateway import Gateway

SCHEMA = {
    "type": "object",
    "properties": {"move": {"enum": ["north", "south"]}, "sure": {"type": "boolean"}},
    "required": ["move", "sure"],
    "additionalProperties": False,
}
ASK = [{"role": "user", "content": "Where to?"}]
CHAT_TOOL = {"type": "function", "function": {"name": "go", "parameters": SCHEMA}}
RESPONSES_TOOL = {"type": "function", "name": "go", "parameters": SCHEMA}
GO = {"type": "function", "function": {"name": "go"}}
ANTHROPIC_TOOL = {"name": "go", "input_schema": SCHEMA}
FORMAT = {"type": "json_schema", "schema": SCHEMA}
OTHER = {"type": "function", "function": {"name": "wait", "parameters": {"type": "object", "properties": {}}}}


def satisfies(value: Any) -> bool:
    """Whether a value is one of SCHEMA."""
    return value in [{"move": move, "sure": sure} for move in ("north", "south") for sure in (True, False)]


def constrained(engine: TorchEngine) -> Session:
    session = make_session(engine.generate, temperature=1.0, max_tokens=200)
    clients = {role: replace(client, constrains=True) for role, client in session.spec.clients.items()}
    return Session(replace(session.spec, clients=clients))


def ask(gateway: Gateway, session: Session, path: str, **body: Any) -> httpx.Response:
    base = gateway.open(session)
    body = {"model": "solver"} | body
    return httpx.post(
        f"{base}/{path}", json=body, headers={"Authorization": f"Bearer {session.key}"}, timeout=60
    )


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (
            "chat/completions",
            {"messages": ASK, "response_format": {"type": "json_schema", "json_schema": FORMAT}},
        ),
        ("responses", {"input": ASK, "text": {"format": {"name": "move", **FORMAT}}}),
        ("messages", {"messages": ASK, "max_tokens": 200, "output_config": {"format": FORMAT}}),
    ],
)
def test_an_answer_satisfies_its_schema(
    gateway: Gateway, engine: TorchEngine, path: str, body: dict[str, Any]
) -> None:
    session = constrained(engine)
    answer = ask(gateway, session, path, **body)
    assert answer.status_code == 200 and HEADER not in answer.headers, answer.text
    (call,) = session.conversation("solver").calls
    assert satisfies(json.loads(call.answers[0].text))
    assert json.dumps(call.answers[0].text) in answer.text


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("chat/completions", {"messages": ASK, "tools": [CHAT_TOOL], "tool_choice": "required"}),
        ("chat/completions", {"messages": ASK, "tools": [OTHER, CHAT_TOOL], "tool_choice": GO}),
        ("responses", {"input": ASK, "tools": [RESPONSES_TOOL], "tool_choice": {"type": "function", "name": "go"}}),
        ("messages", {"messages": ASK, "max_tokens": 200, "tools": [ANTHROPIC_TOOL], "tool_choice": {"type": "any"}}),
    ],
)  # fmt: skip
def test_a_forced_tool_is_called_with_arguments_of_its_schema(
    gateway: Gateway, engine: TorchEngine, path: str, body: dict[str, Any]
) -> None:
    session = constrained(engine)
    answer = ask(gateway, session, path, **body)
    assert answer.status_code == 200 and HEADER not in answer.headers, answer.text
    called = answer.json()
    if path == "messages":
        (use,) = [block for block in called["content"] if block["type"] == "tool_use"]
        name, arguments = use["name"], use["input"]
    elif path == "responses":
        (item,) = [item for item in called["output"] if item["type"] == "function_call"]
        name, arguments = item["name"], json.loads(item["arguments"])
    else:
        function = called["choices"][0]["message"]["tool_calls"][0]["function"]
        name, arguments = function["name"], json.loads(function["arguments"])
    assert name == "go"
    assert satisfies(arguments)


def test_what_cannot_be_sampled_is_refused_or_ignored(gateway: Gateway, engine: TorchEngine) -> None:
    wrong = {"type": "json_schema", "json_schema": {"schema": {"type": "nonsense"}}}
    assert (
        ask(gateway, constrained(engine), "chat/completions", messages=ASK, response_format=wrong).status_code
        == 400
    )
    missing = {"type": "function", "function": {"name": "fly"}}
    refused = ask(
        gateway, constrained(engine), "chat/completions", messages=ASK, tools=[CHAT_TOOL], tool_choice=missing
    )
    assert refused.status_code == 400 and "fly" in refused.text
    free = make_session(engine.generate)
    ignored = ask(gateway, free, "chat/completions", messages=ASK, response_format={"type": "json_object"})
    assert ignored.headers[HEADER] == "response_format"
