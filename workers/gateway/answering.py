"""Answers requests: prompt ids, generation, and the record of both."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from training_core.errors import RequestRefused
from training_core.llm.agents.conversation import Call
from training_core.llm.agents.messages import normalise_message, parse_answer, shorten
from training_core.llm.agents.rendering import Renderer
from training_core.llm.agents.session import PolicyClient, Session
from training_core.llm.generation.base import SamplingSettings
from training_core.types import Answer, Prompt
from training_core.versions import first_version_tokens
from workers.gateway.batching import CONTEXT_FULL, Batcher
from workers.gateway.encoding import as_received
from workers.gateway.requests import ChatRequest, TextRequest


@dataclass(frozen=True)
class Answered:
    """A call with the answers for its agent."""

    call: Call
    client: PolicyClient
    role: str
    messages: list[dict[str, Any]]
    """One per choice."""


async def answer_chat(session: Session, request: ChatRequest, batcher: Batcher) -> Answered:
    """Answer a conversation. Raises RequestRefused."""
    role = session.role_of(request.model)
    client, conversation = session.spec.clients[role], session.conversations[role]
    messages = [normalise_message(message) for message in request.messages]
    number, name = session.next_call()
    call = conversation.start_call(
        messages,
        request.offered,
        number=number,
        id=name,
        continues=request.continue_final_message,
        stops=(*client.settings.stop, *request.stops),
    )
    settings = _settings(client, request.limit, request.stops)
    answers = await _generate(session, role, call, settings, request, batcher)
    replies = [as_received(parse_answer(answer.text, tools=request.offered or False)) for answer in answers]
    conversation.record_answers(call, answers, replies)
    return Answered(call, client, role, replies)


async def answer_text(session: Session, request: TextRequest, batcher: Batcher) -> list[Answered]:
    """Continue texts or token ids as given. All are checked before the first is answered. Raises RequestRefused; then no
    answer is received.
    """
    renderer = session.spec.clients[session.role_of(request.model)].renderer
    prompts = [_ids(prompt, renderer) for prompt in request.prompts]
    if not prompts:
        raise RequestRefused("the prompt is empty")
    answered: list[Answered] = []
    try:
        for ids in prompts:
            answered.append(await _answer_ids(session, ids, request, batcher))
    except RequestRefused:
        discard(answered)
        raise
    return answered


def discard(parts: Sequence[Answered]) -> None:
    """Mark calls as not received by their client: they stay in the transcript and are not trained on."""
    for part in parts:
        part.call.received = False


def _ids(prompt: str | list[int], renderer: Renderer) -> list[int]:
    """A prompt's token ids. Raises RequestRefused if it is empty or the tokenizer does not know an id."""
    ids = renderer.encode_text(prompt) if isinstance(prompt, str) else prompt
    if not ids:
        raise RequestRefused("the prompt is empty")
    if max(ids) >= renderer.vocabulary:
        raise RequestRefused(
            f"token id {shorten(max(ids))} is outside the model's vocabulary; use ids from 0 to {renderer.vocabulary - 1}"
        )
    return ids


async def _answer_ids(session: Session, ids: list[int], request: TextRequest, batcher: Batcher) -> Answered:
    role = session.role_of(request.model)
    client, conversation = session.spec.clients[role], session.conversations[role]
    number, name = session.next_call()
    call = conversation.start_text_call(ids, number=number, id=name.replace("chatcmpl", "cmpl"))
    settings = _settings(client, request.max_tokens, request.stops)
    answers = await _generate(session, role, call, settings, request, batcher)
    replies = [as_received(parse_answer(answer.text, tools=False)) for answer in answers]
    conversation.record_answers(call, answers, replies)
    return Answered(call, client, role, replies)


def _settings(client: PolicyClient, limit: int | None, stops: tuple[str, ...]) -> SamplingSettings:
    """The role's settings with the call's restrictions: fewer tokens, more stop texts."""
    settings = client.settings
    max_tokens = settings.max_tokens if limit is None else min(limit, settings.max_tokens)
    return replace(settings, max_tokens=max_tokens, stop=(*settings.stop, *stops))


async def _generate(
    session: Session,
    role: str,
    call: Call,
    settings: SamplingSettings,
    request: ChatRequest | TextRequest,
    batcher: Batcher,
) -> list[Answer]:
    client = session.spec.clients[role]
    key = session.noise(role, call.prompt_ids, request.seed)
    prompt = Prompt(call.prompt_ids, request.n, key, rid=f"{session.spec.episode.id}/{role}")
    call.started = time.time()
    try:
        answers = await batcher.ask(client, prompt, settings)
    except RequestRefused as refusal:
        session.overlong = str(refusal) if refusal.code == CONTEXT_FULL else session.overlong
        raise
    session.overlong = ""
    if request.on_update == "abort":
        answers = [_until_update(answer, client) for answer in answers]
    call.ended = time.time()
    return answers


def _until_update(answer: Answer, client: PolicyClient) -> Answer:
    """The part of an answer that was generated with its first version of the weights."""
    same = first_version_tokens(answer)
    if same == len(answer.versions):
        return answer
    ids = answer.token_ids[:same]
    text = client.renderer.decode(ids)
    return Answer(ids, answer.logprobs[:same], answer.versions[:same], "interrupt", text)
