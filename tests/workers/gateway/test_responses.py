"""The Responses API with the official client: one conversation, the same tokens as chat completions, its own events and errors."""

from typing import Any

import openai
import pytest
from openai import OpenAI

from tests.workers.gateway.playing import (
    TOKENIZER,
    Recorded,
    Scripted,
    assert_one_sequence,
    ids_of,
    make_session,
)
from training_core.llm.agents.session import Session
from training_core.llm.generation.torch_engine import TorchEngine
from workers.gateway.gateway import Gateway

ASK: Any = [{"role": "user", "content": "What is the weather?"}]
FUNCTION: Any = {"name": "add", "description": "a sum", "parameters": {"type": "object"}}
TOOLS: Any = [{"type": "function", **FUNCTION}]
CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 3}}\n</tool_call>'
EOS = TOKENIZER.eos_token_id


def client(gateway: Gateway, session: Session) -> OpenAI:
    return OpenAI(base_url=gateway.open(session), api_key=session.key, max_retries=0)


@pytest.mark.parametrize("stream", [False, True])
def test_no_answer_is_encoded_again(gateway: Gateway, engine: TorchEngine, stream: bool) -> None:
    """A random model, whose answers as text would be cut into other tokens: the episode is one sequence."""
    said = Recorded(engine)
    session = make_session(said)
    agent = client(gateway, session)
    items = [*ASK]
    for question in ("three?", "four?", "five?"):
        if stream:
            *_, last = agent.responses.create(model="solver", input=items, stream=True)
            made = last.response  # type: ignore[union-attr]
        else:
            made = agent.responses.create(model="solver", input=items)
        items += [item.model_dump() for item in made.output] + [{"role": "user", "content": question}]
    assert_one_sequence(said, session)


@pytest.mark.parametrize("stream", [False, True])
def test_text_and_parallel_calls_come_back_as_one_answer(gateway: Gateway, stream: bool) -> None:
    """Items of a type each, and the chat prompt that chat completions makes of the same conversation."""
    policy = Scripted(f"so {CALL}{CALL}", "It is 7", f"so {CALL}{CALL}", "It is 7")
    session = make_session(policy)
    agent = client(gateway, session)
    more: Any = {"model": "solver", "tools": TOOLS, "instructions": "Use the tool."}
    if stream:
        with agent.responses.stream(input=ASK, **more) as events:
            types = [event.type for event in events]
            made = events.get_final_response()
        assert types.count("response.function_call_arguments.done") == 2 and types[-1] == "response.completed"
    else:
        made = agent.responses.create(input=ASK, **more)
    assert [item.type for item in made.output] == ["message", "function_call", "function_call"]
    assert made.output_text == "so" and made.output[1].arguments == '{"a": 3}'  # type: ignore[union-attr]
    items = [*ASK, *(item.model_dump(exclude_none=True) for item in made.output)]
    items += [
        {"type": "function_call_output", "call_id": call.call_id, "output": str(number)}  # type: ignore[union-attr]
        for number, call in enumerate(made.output[1:], 7)
    ]
    last = agent.responses.create(input=items, **more)
    assert last.output_text == "It is 7"
    assert last.usage and last.usage.total_tokens == len(policy.prompts[1].token_ids) + len(ids_of("It is 7"))
    first = policy.prompts[0].token_ids
    assert policy.prompts[1].token_ids[: len(first)] == first
    assert policy.prompts[1].token_ids[len(first) :][: len(ids_of(f"so {CALL}{CALL}"))] == ids_of(
        f"so {CALL}{CALL}"
    )
    chat = client(gateway, make_session(policy)).chat.completions
    talk: Any = [{"role": "system", "content": "Use the tool."}, *ASK]
    chat_tools: Any = [{"type": "function", "function": FUNCTION}]
    answer = chat.create(model="solver", messages=talk, tools=chat_tools).choices[0].message
    talk += [answer.model_dump(), *({"role": "tool", "content": text} for text in "78")]
    chat.create(model="solver", messages=talk, tools=chat_tools)
    assert [one.token_ids for one in policy.prompts[2:]] == [one.token_ids for one in policy.prompts[:2]]


def test_streams_equal_complete_responses(gateway: Gateway, engine: TorchEngine) -> None:
    agent = client(gateway, make_session(Recorded(engine)))
    more: Any = {"model": "solver", "input": "three?", "max_output_tokens": 5, "extra_body": {"seed": 5}}
    whole = agent.responses.create(**more)
    events = list(agent.responses.create(stream=True, **more))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    texts = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(texts) == whole.output_text and len(texts) > 1
    last = events[-1]
    assert last.type in ("response.completed", "response.incomplete")
    assert last.response.usage == whole.usage and last.response.status == whole.status
    if whole.status == "incomplete":
        assert whole.incomplete_details and whole.incomplete_details.reason == "max_output_tokens"


def test_a_call_s_id_earns_a_reward_and_returns_its_ids(gateway: Gateway) -> None:
    session = make_session(Scripted("seven"))
    made = client(gateway, session).responses.create(
        model="solver", input="x", extra_body={"return_token_ids": True}
    )
    session.reward({"rewards": {made.id: 0.5}})
    ((_, call),) = session.calls()
    assert made.id.startswith("resp_") and call.reward == 0.5
    assert made.token_ids == ids_of("seven") and made.prompt_token_ids == call.prompt_ids  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"previous_response_id": "resp_1"},
            "previous_response_id: responses are not stored; send the whole",
        ),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "responses are not stored"),
        ({"input": [{"type": "computer_call", "id": "c"}]}, "an item of type 'computer_call'"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "type text"),
        ({"input": [{"type": "function_call", "call_id": 3, "name": 4, "arguments": []}]}, "a tool call"),
        ({"input": []}, "input"),
    ],
)
def test_refusals_are_the_clients_errors(gateway: Gateway, fields: Any, message: str) -> None:
    session = make_session(Scripted("seven"))
    with pytest.raises(openai.BadRequestError, match=message):
        client(gateway, session).responses.create(**{"model": "solver", "input": "x"} | fields)
    assert session.calls() == []


def test_stored_responses_do_not_exist(gateway: Gateway) -> None:
    with pytest.raises(openai.NotFoundError, match="responses are not stored"):
        client(gateway, make_session(Scripted("seven"))).responses.retrieve("resp_1")


def test_fields_that_are_not_applied_are_named(gateway: Gateway) -> None:
    agent = client(gateway, make_session(Scripted("seven", "four")))
    plain: Any = {"model": "solver", "input": ASK, "store": False, "text": {"format": {"type": "text"}}}
    plain |= {"tool_choice": "auto", "truncation": "disabled", "tools": TOOLS, "parallel_tool_calls": True}
    assert "x-troupe-ignored" not in agent.responses.with_raw_response.create(**plain).headers
    more: Any = {
        "model": "solver",
        "input": [ASK[0] | {"mood": "loud"}],
        "tools": [{"type": "web_search"}],
        "tool_choice": "required",
        "reasoning": {"effort": "low"},
        "text": {"verbosity": "low"},
    }
    named = agent.responses.with_raw_response.create(**more).headers["x-troupe-ignored"].split(", ")
    assert set(named) == {"tool_choice", "reasoning", "input.mood", "text.verbosity", "tools.web_search"}
