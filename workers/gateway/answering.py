"""Requests of any dialect as recorded calls: prompt ids, generation, and the answers that clients receive."""

import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from training_core.errors import PromptRefused, RequestRefused
from training_core.llm.agents.conversation import Call
from training_core.llm.agents.messages import normalise_message, parse_answer, shorten
from training_core.llm.agents.session import PolicyClient, Session
from training_core.llm.environments.host import describe
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.rendering import Renderer
from training_core.llm.serving.batching import RequestBatcher
from training_core.types import Answer, GrammarSpan, Prompt
from training_core.versions import first_version_tokens
from workers.gateway.request_grammars import request_grammar

log = logging.getLogger(__name__)
CONTEXT_FULL = "context_length_exceeded"
"""OpenAI's code for a prompt that leaves no room for an answer."""
_WORD = re.compile(r"\s*\S+\s*$|\s*\S+|\s+$")


class Asked(BaseModel):
    """A request for answers. Fields that a dialect does not declare are kept, so that ignored.py names them."""

    model_config = ConfigDict(extra="allow")
    id_prefix: ClassVar[str] = "chatcmpl-"
    """How the ids of its calls begin."""
    conversation_field: ClassVar[str] = "messages"
    """The field with the conversation."""
    grammar_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that state the grammar of the answer (request_grammars.py)."""
    ignored_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that are checked but not applied: the role's own settings are used, because the policy learns from that
    distribution.
    """

    model: str = ""
    """A role of the team; any name if there is only one."""
    n: int = Field(1, ge=1, le=128)
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    stream: bool = False
    return_token_ids: bool = False
    """Whether the response has prompt_token_ids, token_ids, token_logprobs and versions (vLLM's field, extended by two)."""
    on_update: Literal["resume", "abort"] = "resume"
    """If the weights change during an answer: continue it with the new ones, or end it with "abort"."""

    @property
    def limit(self) -> int | None:
        """Maximum number of new tokens."""
        return None

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop texts of the request."""
        return ()

    @property
    def chat(self) -> list[dict[str, Any]]:
        """The conversation in OpenAI's messages; empty for a continuation of texts. Raises RequestRefused."""
        return []

    @property
    def offered(self) -> list[dict[str, Any]] | None:
        """The tools that the policy sees, as chat completions has them."""
        return None

    @property
    def continues(self) -> bool:
        """Whether the last message is the start of the answer."""
        return False

    @property
    def answer_schema(self) -> Mapping[str, Any] | None:
        """The JSON schema that the answer must satisfy. Raises RequestRefused."""
        return None

    @property
    def forced_tool(self) -> str | None:
        """The tool that the answer must call; empty for any that is offered, None if the policy chooses."""
        return None

    @property
    def unapplied(self) -> dict[str, Any]:
        """Fields that are not applied and are not empty, with their values."""
        fields = {name: getattr(self, name) for name in self.ignored_fields} | (self.model_extra or {})
        return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


@dataclass(frozen=True)
class Answered:
    """A call with the answers for its agent."""

    call: Call
    client: PolicyClient
    role: str
    messages: list[dict[str, Any]]
    """One per choice."""


class Batcher(RequestBatcher):
    """Batches requests by policy, and tells requests at fault from engines that fail."""

    failure: Exception | None = None
    """The first failure of an engine that no request caused."""

    async def ask(self, client: PolicyClient, prompt: Prompt, settings: SamplingSettings) -> list[Answer]:
        """`prompt.count` answers. Raises RequestRefused."""
        try:
            return await self.generate_answers(client.policy, client.generate, prompt, settings)
        except Exception as error:
            raise await self._refusal(client, prompt, settings, error) from error

    async def _refusal(
        self, client: PolicyClient, prompt: Prompt, settings: SamplingSettings, error: Exception
    ) -> RequestRefused:
        """The refusal of a failed request. The run fails only if the engine fails at every request.

        A prompt of one token tests the engine: if it answers that, the request was at fault.
        """
        if isinstance(error, PromptRefused):
            return RequestRefused(
                str(error), 400, CONTEXT_FULL if "context" in str(error) else "invalid_request"
            )
        log.warning("a policy failed to answer a request: %s", describe(error))
        ids = client.renderer.encode("hello")[:1] or [0]
        trial = replace(prompt, token_ids=ids, count=1, offset=0, grammar="", rid="")
        try:
            await self.generate_answers(
                client.policy, client.generate, trial, replace(settings, max_tokens=1)
            )
        except Exception:
            self.failure = self.failure or error
            return RequestRefused(f"the policy cannot answer: {error}", 503, "unavailable")
        return RequestRefused(f"the policy failed on this request: {describe(error)}", 500, "engine_failure")


@dataclass(frozen=True)
class Dialect:
    """One endpoint of an API: what its clients send and receive."""

    asked: type[Asked]
    """The model of its requests."""
    answer: Callable[[Session, Any, Batcher], Awaitable[list[Answered]]]
    """(session, request, batcher) -> its calls. Raises RequestRefused."""
    document: Callable[[Sequence[Answered], Any], Any]
    """(calls, request) -> the response's JSON."""
    events: Callable[[Sequence[Answered], Any], Iterable[bytes]]
    """(calls, request) -> the server-sent events of a stream."""
    error: Callable[[str, str, int], Any]
    """(message, code, HTTP status) -> the JSON of an error."""


async def answer_chat(session: Session, request: Asked, batcher: Batcher) -> list[Answered]:
    """Answer a conversation. Raises RequestRefused."""
    role, call = _start_chat(session, request)
    return [await _answered(session, role, call, request, batcher, request.offered or False)]


def prompt_tokens(session: Session, request: Asked) -> int:
    """Number of tokens of a conversation's prompt, as `answer_chat` would make it. Raises RequestRefused."""
    return len(_start_chat(session, request)[1].prompt_ids)


def _start_chat(session: Session, request: Asked) -> tuple[str, Call]:
    role = session.role_of(request.model)
    normal = [normalise_message(message) for message in request.chat]
    number, name = session.next_call()
    return role, session.conversation(role).start_call(
        normal,
        request.offered,
        number=number,
        id=request.id_prefix + name,
        continues=request.continues,
        stops=(*session.spec.clients[role].settings.stop, *request.stops),
    )


async def answer_texts(
    session: Session, request: Asked, texts: Sequence[str | list[int]], batcher: Batcher
) -> list[Answered]:
    """Continue texts or token ids as given. All are checked before the first is answered. Raises RequestRefused; then no
    answer is received.
    """
    role = session.role_of(request.model)
    prompts = [_ids(text, session.spec.clients[role].renderer) for text in texts]
    if not prompts:
        raise RequestRefused("the prompt is empty")
    answered: list[Answered] = []
    try:
        for ids in prompts:
            number, name = session.next_call()
            call = session.conversation(role).start_text_call(ids, number=number, id=request.id_prefix + name)
            answered.append(await _answered(session, role, call, request, batcher, tools=False))
    except RequestRefused:
        discard(answered)
        raise
    return answered


def discard(parts: Sequence[Answered]) -> None:
    """Mark calls as not received by their client: they stay in the transcript and are not trained on."""
    for part in parts:
        part.call.received = False


def encoded(document: Any) -> bytes:
    """A document as JSON. Never fails, whatever a policy has answered: single surrogates become question marks."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def event(document: Any, name: str = "") -> bytes:
    """A document as a server-sent event, with a name where the API has them."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + encoded(document) + b"\n\n"


def words(text: str) -> list[str]:
    """The pieces in which a stream sends a text."""
    return _WORD.findall(text)


def other_fields(section: str, parts: Iterable[Mapping[str, Any]], known: Sequence[str]) -> dict[str, Any]:
    """The fields of a section's parts that are not known and not empty, as section.field."""
    fields = {name: value for part in parts for name, value in part.items() if name not in known}
    return {f"{section}.{name}": value for name, value in fields.items() if value not in (None, "", [], {})}


def returned_ids(answer: Answer, request: Asked) -> dict[str, Any]:
    """An answer's token ids, log-probabilities and versions, if the request asks for them."""
    if not request.return_token_ids:
        return {}
    return {"token_ids": answer.token_ids, "token_logprobs": answer.logprobs, "versions": answer.versions}


def returned_prompt(answered: Answered, request: Asked) -> dict[str, Any]:
    """A call's prompt as token ids, if the request asks for it."""
    return {"prompt_token_ids": answered.call.prompt_ids} if request.return_token_ids else {}


def as_received(value: Any) -> Any:
    """A document with texts that UTF-8 can encode, as the client receives it."""
    return json.loads(encoded(value))


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


async def _answered(
    session: Session,
    role: str,
    call: Call,
    request: Asked,
    batcher: Batcher,
    tools: Sequence[Mapping[str, Any]] | bool,
) -> Answered:
    """Generate a call's answers and record them."""
    answers = await _generate(session, role, call, request, batcher)
    replies = [as_received(parse_answer(answer.text, tools=tools)) for answer in answers]
    session.conversation(role).record_answers(call, answers, replies)
    return Answered(call, session.spec.clients[role], role, replies)


async def _generate(
    session: Session, role: str, call: Call, request: Asked, batcher: Batcher
) -> list[Answer]:
    """Answers with the role's settings and the request's restrictions: fewer tokens, more stop texts."""
    client = session.spec.clients[role]
    limits = [limit for limit in (client.settings.max_tokens, request.limit) if limit is not None]
    settings = replace(client.settings, max_tokens=min(limits), stop=(*client.settings.stop, *request.stops))
    key = session.noise(role, call.prompt_ids, request.seed)
    grammar = request_grammar(request, client)
    rid = f"{session.spec.episode.id}/{role}"
    prompt = Prompt(call.prompt_ids, request.n, key, grammar=grammar, rid=rid)
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
    grammars = tuple(GrammarSpan(0, same, span.grammar) for span in answer.grammars)
    return Answer(ids, answer.logprobs[:same], answer.versions[:same], "interrupt", text, grammars=grammars)
