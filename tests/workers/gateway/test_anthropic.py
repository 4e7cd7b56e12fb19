"""Anthropic's Messages API: requests as its client sends them, and in `make test-all` that client itself.

The client has an environment of its own, since Troupe does not need it.
"""

import json
import subprocess
from typing import Any

import httpx
import pytest

from tests.workers.gateway.environments import client_python
from tests.workers.gateway.playing import (
    TOKENIZER,
    Recorded,
    Scripted,
    assert_one_sequence,
    ids_of,
    make_gateway,
    make_session,
)
from training_core.llm.agents.session import Session
from training_core.llm.generation.torch_engine import TorchEngine
from workers.gateway.gateway import Gateway

ASK: dict[str, Any] = {"role": "user", "content": "What is the weather?"}
TOOL = {"name": "add", "description": "a sum", "input_schema": {"type": "object"}}
CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 3}}\n</tool_call>'
EOS = TOKENIZER.eos_token_id


def post(gateway: Gateway, session: Session, messages: list[Any], /, **fields: Any) -> httpx.Response:
    """A request with the address and headers of anthropic 2.14."""
    gateway.open(session)
    body = {"max_tokens": 64, "messages": messages, "model": "solver"} | fields
    headers = {"x-api-key": session.key, "anthropic-version": "2023-06-01"}
    return httpx.post(f"{gateway.url}/v1/messages", json=body, headers=headers, trust_env=False, timeout=60)


def events(answer: httpx.Response) -> list[dict[str, Any]]:
    """The events of a stream, whose names are their types."""
    found = []
    for part in answer.text.strip().split("\n\n"):
        name, data = part.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def collected(answer: httpx.Response) -> dict[str, Any]:
    """The message that a stream builds."""
    first, *rest = events(answer)
    message: dict[str, Any] = first["message"]
    for event in rest:
        if event["type"] == "content_block_start":
            assert event["index"] == len(message["content"])
            message["content"].append(event["content_block"])
        elif event["type"] == "content_block_delta":
            block, delta = message["content"][event["index"]], event["delta"]
            if delta["type"] == "text_delta":
                block["text"] += delta["text"]
            else:
                block["input"] = json.loads(delta["partial_json"])
        elif event["type"] == "message_delta":
            message |= event["delta"]
            message["usage"] |= event["usage"]
    assert rest[-1] == {"type": "message_stop"}
    return message


@pytest.mark.parametrize("stream", [False, True])
def test_no_answer_is_encoded_again(gateway: Gateway, engine: TorchEngine, stream: bool) -> None:
    """A random model, whose answers as text would be cut into other tokens: the episode is one sequence."""
    said = Recorded(engine)
    session = make_session(said)
    talk = [ASK]
    for question in ("three?", "four?", "five?"):
        answer = post(gateway, session, talk, stream=stream)
        made = collected(answer) if stream else answer.json()
        talk += [
            {"role": "assistant", "content": made["content"]},
            {"role": "user", "content": [{"type": "text", "text": question}]},
        ]
    assert_one_sequence(said, session)


@pytest.mark.parametrize("stream", [False, True])
def test_text_and_parallel_calls_come_back_as_one_answer(gateway: Gateway, stream: bool) -> None:
    """Blocks of a type each, and the chat prompt that chat completions makes of the same conversation."""
    policy = Scripted(f"so {CALL}{CALL}", "It is 7", f"so {CALL}{CALL}", "It is 7")
    session = make_session(policy)
    system = [{"type": "text", "text": "Use the tool.", "cache_control": {"type": "ephemeral"}}]
    more: dict[str, Any] = {"tools": [TOOL], "system": system}
    answer = post(gateway, session, [ASK], stream=stream, **more)
    made = collected(answer) if stream else answer.json()
    assert [block["type"] for block in made["content"]] == ["text", "tool_use", "tool_use"]
    assert made["content"][0]["text"] == "so" and made["content"][1]["input"] == {"a": 3}
    assert (made["stop_reason"], made["stop_sequence"], made["role"]) == ("tool_use", None, "assistant")
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": text}
        for block, text in zip(made["content"][1:], ("7", [{"type": "text", "text": "8"}]), strict=True)
    ]
    talk = [ASK, {"role": "assistant", "content": made["content"]}, {"role": "user", "content": results}]
    last = post(gateway, session, talk, **more).json()
    assert last["content"] == [{"type": "text", "text": "It is 7"}] and last["stop_reason"] == "end_turn"
    prompt = policy.prompts[1].token_ids
    assert last["usage"] == {"input_tokens": len(prompt), "output_tokens": len(ids_of("It is 7"))}
    first = policy.prompts[0].token_ids + ids_of(f"so {CALL}{CALL}")
    assert prompt[: len(first)] == first
    chat: list[Any] = [{"role": "system", "content": "Use the tool."}, ASK]
    function = {"name": "add", "description": "a sum", "parameters": {"type": "object"}}
    address = gateway.open(make_session(policy))
    for _ in range(2):
        body = {"messages": chat, "tools": [{"type": "function", "function": function}]}
        said = httpx.post(f"{address}/chat/completions", json=body, trust_env=False, timeout=60).json()
        chat += [said["choices"][0]["message"], *({"role": "tool", "content": text} for text in "78")]
    assert [one.token_ids for one in policy.prompts[2:]] == [one.token_ids for one in policy.prompts[:2]]


def test_the_last_message_of_the_assistant_is_continued(gateway: Gateway) -> None:
    policy = Scripted("seven")
    talk = [ASK, {"role": "assistant", "content": "It is"}]
    assert post(gateway, make_session(policy), talk).json()["content"][0]["text"] == "seven"
    assert TOKENIZER.decode(policy.prompts[0].token_ids).endswith("<|im_start|>assistant\nIt is")


def test_ends_of_answers(gateway: Gateway, engine: TorchEngine) -> None:
    session = make_session(Recorded(engine))
    whole = post(gateway, session, [ASK], seed=3).json()["content"][0]["text"]
    word = whole[len(whole) // 2]
    cut = post(gateway, session, [ASK], seed=3, stop_sequences=[word]).json()
    assert (cut["stop_reason"], cut["stop_sequence"]) == ("stop_sequence", word)
    assert cut["content"][0]["text"] == whole.partition(word)[0]
    short = post(gateway, session, [ASK], seed=3, max_tokens=2).json()
    assert (short["stop_reason"], short["usage"]["output_tokens"]) == ("max_tokens", 2)


@pytest.mark.parametrize(
    ("fields", "status", "kind", "message"),
    [
        ({"model": "gpt"}, 404, "not_found_error", "use a role: solver, critic"),
        ({"max_tokens": None}, 400, "invalid_request_error", "max_tokens"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, 400, "invalid_request_error", "'image'"),
        ({"messages": [{"role": "user", "content": ["x"]}]}, 400, "invalid_request_error", "None"),
        (
            {"messages": [ASK, {"role": "assistant", "content": [{"type": "tool_use"}]}]},
            400,
            "invalid_request_error",
            "tool_result must follow",
        ),
        ({"messages": [ASK | {"content": "weather " * 600}]}, 400, "invalid_request_error", "no room"),
    ],
)  # fmt: skip
def test_errors_have_the_apis_form(
    gateway: Gateway, engine: TorchEngine, fields: Any, status: int, kind: str, message: str
) -> None:
    session = make_session(Recorded(engine), ("solver", "critic"))
    answer = post(gateway, session, [ASK], **fields)
    assert answer.status_code == status and answer.json()["type"] == "error"
    assert answer.json()["error"]["type"] == kind and message in answer.json()["error"]["message"]
    assert session.calls() == []


def test_fields_that_are_not_applied_are_named(gateway: Gateway) -> None:
    session = make_session(Scripted("seven", "four"))
    plain = post(gateway, session, [ASK], tools=[TOOL], tool_choice={"type": "auto"}, stop_sequences=["x"])
    assert plain.status_code == 200 and "x-troupe-ignored" not in plain.headers
    more = {"tools": [{"type": "web_search_20250305", "name": "search"}], "tool_choice": {"type": "any"}}
    answer = post(gateway, session, [ASK], temperature=0.1, top_k=3, thinking={"type": "enabled"}, **more)
    named = set(answer.headers["x-troupe-ignored"].split(", "))
    assert named == {"temperature", "top_k", "thinking", "tool_choice", "tools.web_search_20250305"}


def test_tokens_are_counted_as_a_message_has_them(gateway: Gateway) -> None:
    """With a history, tools and a system message; nothing is recorded."""
    session = make_session(Scripted("seven", "four"))
    first = post(gateway, session, [ASK]).json()
    fields: dict[str, Any] = {
        "system": "Be brief.",
        "tools": [TOOL],
        "messages": [ASK, {"role": "assistant", "content": first["content"]}, ASK],
    }
    headers = {"x-api-key": session.key, "anthropic-version": "2023-06-01"}
    for base in ("/v1", "/v1/v1"):
        counted = httpx.post(
            f"{gateway.url}{base}/messages/count_tokens", json={"model": "solver"} | fields, headers=headers,
            trust_env=False,
        )  # fmt: skip
        assert counted.status_code == 200 and len(session.calls()) == 1
    messages = fields.pop("messages")
    assert counted.json() == {
        "input_tokens": post(gateway, session, messages, **fields).json()["usage"]["input_tokens"]
    }


def test_the_roles_are_models_of_both_apis(gateway: Gateway) -> None:
    session = make_session(Scripted(), ("solver", "critic"))
    address = gateway.open(session)
    for base in (address, f"{address}/v1"):
        listed = httpx.get(f"{base}/models", trust_env=False).json()
        assert (listed["object"], listed["has_more"], listed["last_id"]) == ("list", False, "critic")
        assert [(model["id"], model["object"], model["type"]) for model in listed["data"]] == [
            ("solver", "model", "model"), ("critic", "model", "model"),
        ]  # fmt: skip
        assert httpx.get(f"{base}/models/critic", trust_env=False).json() == listed["data"][1]
        unknown = httpx.get(f"{base}/models/other", trust_env=False)
        assert unknown.status_code == 404 and "solver, critic" in unknown.json()["error"]["message"]


PROGRAM = """
import json, sys
import anthropic

url, key = sys.argv[1:]
tools = [{"name": "add", "description": "a sum", "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}]
found = {}
with anthropic.Anthropic(base_url=url, api_key=key, max_retries=0) as client:
    for stream in (False, True):
        talk = [{"role": "user", "content": "What is the weather?"}]
        while True:
            options = dict(model="solver", max_tokens=64, messages=talk, tools=tools, system="Use the tool.")
            if stream:
                with client.messages.stream(**options) as events:
                    answer = events.get_final_message()
            else:
                answer = client.messages.create(**options)
            talk.append({"role": "assistant", "content": answer.content})
            uses = [block for block in answer.content if block.type == "tool_use"]
            if not uses:
                break
            talk.append({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": block.id, "content": str(block.input["a"] + 4)} for block in uses
            ]})
        found[str(stream)] = [answer.content[0].text, answer.stop_reason, answer.usage.output_tokens, len(talk)]
    try:
        client.messages.create(model="other", max_tokens=4, messages=talk)
    except anthropic.NotFoundError as error:
        found["error"] = error.body["error"]["type"]
print(json.dumps(found))
"""


@pytest.mark.extended
def test_the_real_client_plays_an_episode(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Complete and streamed, with a tool, with the key alone and with the episode's base URL."""
    python = client_python("anthropic", tmp_path_factory)
    gateway = make_gateway()
    try:
        for by_key in (True, False):
            session = make_session(Scripted(CALL, "It is 7", CALL, "It is 7"), ("solver", "critic"))
            address = gateway.open(session)
            words = (gateway.url, session.key) if by_key else (address, "unused")
            done = subprocess.run([python, "-c", PROGRAM, *words], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            answer = ["It is 7", "end_turn", len(ids_of("It is 7")), 4]
            assert json.loads(done.stdout) == {"False": answer, "True": answer, "error": "not_found_error"}
            assert len(session.conversations["solver"].segments()) == 2, (
                "one sequence each, nothing encoded again"
            )
    finally:
        gateway.close()
