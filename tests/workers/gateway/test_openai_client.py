"""The official client against the gateway, with a real engine: recorded calls equal the engine's answers."""

import asyncio
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from tests.workers.gateway.playing import TOKENIZER, Recorded, Scripted, make_engine, make_session
from training_core.llm.agents.session import Session
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.types import Prompt
from workers.gateway.gateway import Gateway
from workers.rollout_buffer.generator import query_single_turn

ASK: list[Any] = [{"role": "user", "content": "What is the weather?"}]
TOOLS: list[Any] = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]


@pytest.fixture(scope="module")
def engine() -> TorchEngine:
    """Without its cache: the episodes here have one id, and a continued conversation has other last digits of its logprobs."""
    return make_engine(cache_bytes=0)


def client(gateway: Gateway, session: Session) -> OpenAI:
    return OpenAI(base_url=gateway.open(session), api_key=session.key, max_retries=0)


def test_ids_logprobs_and_versions_are_the_engine_s(gateway: Gateway, engine: TorchEngine) -> None:
    said = Recorded(engine)
    session = make_session(said)
    answer = client(gateway, session).chat.completions.create(
        model="solver", messages=ASK, n=3, logprobs=True, extra_body={"return_token_ids": True}
    )
    prompt = TOKENIZER.apply_chat_template(ASK, add_generation_prompt=True, tokenize=True)["input_ids"]
    ((prompts, settings, answers),) = said.calls
    assert prompts[0].token_ids == prompt == answer.prompt_token_ids  # type: ignore[attr-defined]
    again = engine.generate([Prompt(prompt, 3, prompts[0].key)], settings)
    assert answers == again
    for choice, engine_answer in zip(answer.choices, again[0], strict=True):
        assert choice.token_ids == engine_answer.token_ids  # type: ignore[attr-defined]
        assert choice.versions == engine_answer.versions  # type: ignore[attr-defined]
        assert choice.message.content == engine_answer.text
        assert choice.logprobs is not None and choice.logprobs.content is not None
        assert [item.logprob for item in choice.logprobs.content] == engine_answer.logprobs
        assert choice.finish_reason == engine_answer.stop_reason
    assert len({choice.message.content for choice in answer.choices}) > 1
    assert answer.usage is not None
    assert answer.usage.completion_tokens == sum(len(one.token_ids) for one in again[0])
    ((role, call),) = session.calls()
    assert (role, call.prompt_ids, call.answers) == ("solver", prompt, again[0])


def test_answers_do_not_depend_on_concurrent_calls(gateway: Gateway, engine: TorchEngine) -> None:
    """Noise hangs on the episode and its prompt: calls in one batch and calls apart say the same."""

    async def ask(texts: list[str], together: bool) -> list[str | None]:
        session = make_session(Recorded(engine))
        base = gateway.open(session)
        async with AsyncOpenAI(base_url=base, api_key="any", max_retries=0) as agent:

            async def one(text: str) -> str | None:
                messages: Any = [{"role": "user", "content": text}]
                made = await agent.chat.completions.create(model="solver", messages=messages)
                return made.choices[0].message.content

            if together:
                return list(await asyncio.gather(*map(one, texts)))
            return [await one(text) for text in texts]

    texts = ["a", "bb", "ccc", "dddd"]
    assert asyncio.run(ask(texts, together=True)) == asyncio.run(ask(texts, together=False))


def test_concurrent_calls_share_batches(gateway: Gateway, engine: TorchEngine) -> None:
    said = Recorded(engine)
    sessions = [make_session(said) for _ in range(24)]

    async def everyone() -> None:
        async def one(session: Session) -> None:
            async with AsyncOpenAI(base_url=gateway.open(session), api_key="any", max_retries=0) as agent:
                await agent.chat.completions.create(model="solver", messages=ASK)

        await asyncio.gather(*map(one, sessions))

    asyncio.run(everyone())
    assert sum(len(prompts) for prompts, _, _ in said.calls) == 24
    assert max(len(prompts) for prompts, _, _ in said.calls) > 1
    assert all(len(session.calls()) == 1 for session in sessions)


def test_streams_equal_complete_responses(gateway: Gateway, engine: TorchEngine) -> None:
    session = make_session(Recorded(engine))
    agent = client(gateway, session)
    whole = agent.chat.completions.create(model="solver", messages=ASK, seed=5, n=2, logprobs=True)
    stream = agent.chat.completions.create(
        model="solver",
        messages=ASK,
        seed=5,
        n=2,
        logprobs=True,
        stream=True,
        stream_options={"include_usage": True},
    )
    texts, logprobs, finishes, usage = ["", ""], [[], []], ["", ""], None  # type: ignore[var-annotated]
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            logprobs[choice.index] += (choice.logprobs.content or []) if choice.logprobs else []
            finishes[choice.index] = choice.finish_reason or finishes[choice.index]
    assert texts == [choice.message.content for choice in whole.choices]
    assert finishes == [choice.finish_reason for choice in whole.choices]
    assert logprobs == [choice.logprobs.content for choice in whole.choices if choice.logprobs]
    assert usage == whole.usage

    async def streamed() -> str:
        async with AsyncOpenAI(base_url=gateway.open(session), api_key="any") as another:
            chunks = await another.chat.completions.create(
                model="solver", messages=ASK, seed=5, n=2, stream=True
            )
            return "".join(
                [c.choices[0].delta.content or "" async for c in chunks if c.choices[0].index == 0]
            )

    assert asyncio.run(streamed()) == texts[0]


def test_text_completions(gateway: Gateway, engine: TorchEngine) -> None:
    said = Recorded(engine)
    session = make_session(said)
    agent = client(gateway, session)
    ids = TOKENIZER("three plus", add_special_tokens=False)["input_ids"]
    one = agent.completions.create(
        model="solver", prompt=["three plus", "four"], seed=1, logprobs=0, max_tokens=4
    )
    assert said.calls[0][0][0].token_ids == ids
    assert [choice.text for choice in one.choices] == [answers[0][0].text for _, _, answers in said.calls]
    assert one.choices[0].logprobs is not None
    assert one.choices[0].logprobs.token_logprobs == said.calls[0][2][0][0].logprobs
    other = agent.completions.create(model="solver", prompt=ids, seed=1, max_tokens=4)
    assert other.choices[0].text == one.choices[0].text
    chunks = agent.completions.create(model="solver", prompt=ids, seed=1, max_tokens=4, stream=True)
    assert "".join(chunk.choices[0].text for chunk in chunks) == one.choices[0].text


def test_stop_and_max_tokens(gateway: Gateway, engine: TorchEngine) -> None:
    session = make_session(Recorded(engine))
    agent = client(gateway, session)
    whole = (
        agent.chat.completions.create(model="solver", messages=ASK, seed=3).choices[0].message.content or ""
    )
    word = whole[len(whole) // 2]
    cut = agent.chat.completions.create(model="solver", messages=ASK, seed=3, stop=[word]).choices[0]
    assert cut.message.content == whole.partition(word)[0]
    assert cut.finish_reason == "stop"
    short = agent.chat.completions.create(model="solver", messages=ASK, seed=3, max_completion_tokens=2)
    assert short.usage is not None and short.usage.completion_tokens == 2
    assert short.choices[0].finish_reason == "length"
    more = agent.chat.completions.create(model="solver", messages=ASK, seed=3, max_tokens=10_000)
    assert more.choices[0].message.content == whole, "the role's own limit stands"


def test_tools_go_through_the_template_and_calls_are_parsed(gateway: Gateway) -> None:
    call = 'so <tool_call>\n{"name": "add", "arguments": {"a": 3}}\n</tool_call>'
    policy = Scripted(call, "seven", "<tool_call> no JSON </tool_call>", call)
    session = make_session(policy)
    agent = client(gateway, session)
    first = agent.chat.completions.create(model="solver", messages=ASK, tools=TOOLS).choices[0]
    assert first.finish_reason == "tool_calls"
    assert first.message.content == "so" and first.message.tool_calls is not None
    assert first.message.tool_calls[0].function.arguments == '{"a": 3}'  # type: ignore[union-attr]
    assert "# Tools" in TOKENIZER.decode(policy.prompts[0].token_ids)
    history = [*ASK, first.message.model_dump(), {"role": "tool", "tool_call_id": "x", "content": "7"}]
    second = agent.chat.completions.create(model="solver", messages=history, tools=TOOLS).choices[0]
    assert second.message.content == "seven"
    said = TOKENIZER(call, add_special_tokens=False)["input_ids"] + [TOKENIZER.eos_token_id]
    before = policy.prompts[0].token_ids + said
    assert policy.prompts[1].token_ids[: len(before)] == before
    assert TOKENIZER.decode(policy.prompts[1].token_ids[len(before) :]) == (
        "\n<|im_start|>user\n<tool_response>\n7\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )
    third = agent.chat.completions.create(model="solver", messages=ASK, tools=TOOLS).choices[0]
    assert third.message.content == "<tool_call> no JSON </tool_call>" and not third.message.tool_calls
    plain = agent.chat.completions.create(
        model="solver", messages=ASK, tools=TOOLS, tool_choice="none"
    ).choices[0]
    assert plain.message.content == call and "# Tools" not in TOKENIZER.decode(policy.prompts[3].token_ids)


def test_parameters_have_the_types_of_the_offered_tool(gateway: Gateway) -> None:
    said = "<function=say>\n<parameter=code>\n1.10\n</parameter>\n<parameter=times>\n2\n</parameter>\n</function>"
    schema = {"type": "object", "properties": {"code": {"type": "string"}, "times": {"type": "integer"}}}
    tools: Any = [{"type": "function", "function": {"name": "say", "parameters": schema}}]
    agent = client(gateway, make_session(Scripted(said)))
    message = agent.chat.completions.create(model="solver", messages=ASK, tools=tools).choices[0].message
    assert message.tool_calls is not None
    assert message.tool_calls[0].function.arguments == '{"code": "1.10", "times": 2}'  # type: ignore[union-attr]


def test_streamed_tool_calls(gateway: Gateway) -> None:
    call = '<tool_call>\n{"name": "add", "arguments": {"a": 3}}\n</tool_call>'
    agent = client(gateway, make_session(Scripted(call)))
    chunks = list(agent.chat.completions.create(model="solver", messages=ASK, tools=TOOLS, stream=True))
    calls = [item for chunk in chunks for item in chunk.choices[0].delta.tool_calls or []]
    assert [(item.index, item.function and item.function.name) for item in calls] == [(0, "add")]
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_a_key_alone_or_an_address_alone_finds_the_episode(gateway: Gateway) -> None:
    session = make_session(Scripted("one", "two"), roles=("solver", "critic"))
    address = gateway.open(session)
    by_key = OpenAI(base_url=f"{gateway.url}/v1", api_key=session.key, max_retries=0)
    by_address = OpenAI(base_url=address, api_key="unused", max_retries=0)
    assert by_key.chat.completions.create(model="critic", messages=ASK).choices[0].message.content == "one"
    assert (
        by_address.chat.completions.create(model="default", messages=ASK).choices[0].message.content == "two"
    )
    assert [role for role, _ in session.calls()] == ["critic", "solver"]
    assert [model.id for model in by_key.models.list()] == ["solver", "critic"]


def test_refusals_are_the_client_s_own_errors(gateway: Gateway, engine: TorchEngine) -> None:
    session = make_session(Recorded(engine), roles=("solver", "critic"))
    agent = client(gateway, session)
    with pytest.raises(openai.NotFoundError, match="use a role: solver, critic"):
        agent.chat.completions.create(model="gpt", messages=ASK)
    with pytest.raises(openai.AuthenticationError, match="no open episode"):
        OpenAI(base_url=f"{gateway.url}/v1", api_key="ep-other", max_retries=0).models.list()
    long: Any = [{"role": "user", "content": "weather " * 600}]
    with pytest.raises(openai.BadRequestError, match="no room for an answer in the model's context") as error:
        agent.chat.completions.create(model="solver", messages=long)
    assert error.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError, match="parts of type text"):
        image: Any = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]
        agent.chat.completions.create(model="solver", messages=image)
    assert session.calls() == []


def test_a_too_long_call_does_not_affect_others_in_its_batch(gateway: Gateway, engine: TorchEngine) -> None:
    session = make_session(Recorded(engine))

    async def both() -> list[Any]:
        async with AsyncOpenAI(base_url=gateway.open(session), api_key="any", max_retries=0) as agent:
            long: Any = [{"role": "user", "content": "weather " * 600}]
            calls = [
                agent.chat.completions.create(model="solver", messages=talk) for talk in (ASK, long, ASK)
            ]
            return list(await asyncio.gather(*calls, return_exceptions=True))

    first, second, third = asyncio.run(both())
    assert isinstance(second, openai.BadRequestError)
    assert first.choices[0].message.content and third.choices[0].message.content


def test_a_session_can_return_ids_by_default(gateway: Gateway, engine: TorchEngine) -> None:
    session = make_session(Recorded(engine))
    session.returns_token_ids = True
    made = client(gateway, session).chat.completions.create(model="solver", messages=ASK)
    ((_, call),) = session.calls()
    (choice,) = made.choices
    assert made.prompt_token_ids == call.prompt_ids  # type: ignore[attr-defined]
    assert choice.token_ids == call.answers[0].token_ids  # type: ignore[attr-defined]
    assert choice.token_logprobs == call.answers[0].logprobs  # type: ignore[attr-defined]
    assert choice.versions == call.answers[0].versions  # type: ignore[attr-defined]
    said = query_single_turn(client(gateway, session), ASK, {"max_tokens": 4})
    _, (_, call) = session.calls()
    assert (
        said[-1]["prompt_token_ids"] == call.prompt_ids and said[-1]["token_ids"] == call.answers[0].token_ids
    )
    assert (
        said[-1]["logprobs"] == call.answers[0].logprobs and said[-1]["versions"] == call.answers[0].versions
    )
    again = query_single_turn(client(gateway, session), [*said, ASK[0]], {"max_tokens": 4})
    assert again[:2] == said and "token_ids" in again[-1]
