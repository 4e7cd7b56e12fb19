"""The gateway's HTTP surface: dialects below each episode's address, and episodes to take, reward and close.

A call whose client has gone before its response is sent counts as not received. Request fields that the gateway does not
apply are named in a header of each response, and once per field in the run's log.
"""

import hmac
import json
import logging
import re
import reprlib
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from math import isclose
from typing import Any

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from training_core.config.rollout import Agent
from training_core.errors import RequestRefused
from training_core.llm.agents.messages import normalise_message, shorten
from training_core.llm.agents.session import Session, SessionRegistry, end_failed
from training_core.llm.generation.base import SamplingSettings
from workers.gateway.answering import (
    Answered,
    Asked,
    Batcher,
    Dialect,
    discard,
    encoded,
    prompt_tokens,
)
from workers.gateway.dialects.anthropic import MESSAGES, CountTokensRequest
from workers.gateway.dialects.anthropic import error as anthropic_error
from workers.gateway.dialects.openai import CHAT, TEXT
from workers.gateway.dialects.openai import error as openai_error
from workers.gateway.dialects.responses import RESPONSES
from workers.gateway.request_grammars import request_grammar
from workers.http import BodyLimit, Receive, Send

log = logging.getLogger(__name__)
Handler = Callable[[Request], Awaitable[Response]]
Failure = Callable[[str, str, int], Any]
"""(message, code, status) -> the JSON of an error."""
DIALECTS: dict[str, Dialect] = {
    "/v1/chat/completions": CHAT,
    "/v1/completions": TEXT,
    "/v1/responses": RESPONSES,
    "/v1/messages": MESSAGES,
    "/v1/v1/messages": MESSAGES,
}
"""The dialects by the path of their requests, below an episode's address. Another API is a module of dialects/, with a
Dialect for each of its paths, and a line here. Anthropic's clients add /v1 to the base URL.
"""
MAX_BODY = 64 << 20
"""Bytes of one request."""
_SURROGATE = rb"\ud"
"""Start of an escaped surrogate in a body; tokenizers do not accept single surrogates."""
RETRY_AFTER = "1"
"""Seconds after which an agent that got no episode may retry."""
_REPORT = {"reward", "rewards", "parts", "success", "outcome"}
_ENDING = _REPORT | {"error", "infrastructure"}
_KEY = re.compile(r"ep-[\w-]{24}|(?<=^/episodes/)[^/]+")
_ANSWERED = (
    "the gateway answers POST chat/completions, completions, responses, messages and messages/count_tokens, and GET models, "
    "below the base URL, which ends with /v1"
)
_OTHER_APIS = (
    ("/embeddings", "a policy gives no embeddings; compute them elsewhere"),
    ("/responses/", "responses are not stored; send the whole conversation as `input` of POST responses"),
    ("/messages/", "of Anthropic's API, POST messages and messages/count_tokens and GET models are answered"),
)
"""Remedies by a part of the path."""


class Json(JSONResponse):
    """A response in JSON, which UTF-8 can always encode."""

    def render(self, content: Any) -> bytes:
        return encoded(content)


class Delivered(Response):
    """A complete body that answers calls. If the client has disconnected before it is sent, the calls are discarded."""

    def __init__(
        self, parts: list[Answered], body: bytes, headers: Mapping[str, str], media_type: str
    ) -> None:
        super().__init__(body, 200, headers, media_type)
        self._parts = parts

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Send it; see the ASGI specification."""
        if await Request(scope, receive).is_disconnected():
            discard(self._parts)
        await super().__call__(scope, receive, send)


def make_app(
    section: Agent, sessions: SessionRegistry, batcher: Callable[[], Batcher], address: str
) -> BodyLimit:
    """The application. `batcher` is called at each request, since the batcher is constructed in the server's event loop."""
    api = _Api(section, sessions, batcher, address)
    calls: list[tuple[str, Handler, str, Failure]] = [
        (path, api.answering(dialect), "POST", dialect.error) for path, dialect in DIALECTS.items()
    ]
    for base, failure in (("/v1", openai_error), ("/v1/v1", anthropic_error)):
        calls += [
            (f"{base}/models", api.models, "GET", failure),
            (base + "/models/{name}", api.model, "GET", failure),
            (f"{base}/messages/count_tokens", api.count_tokens, "POST", anthropic_error),
        ]
    calls += [
        ("/reward", api.reward, "POST", openai_error),
        ("/close", api.close, "POST", openai_error),
    ]
    routes = [
        Route(prefix + path, _guarded(handler, failure), methods=[method])
        for prefix in ("/episodes/{key}", "")
        for path, handler, method, failure in calls
    ]
    routes += [
        Route("/episodes", _guarded(api.take), methods=["POST"]),
        Route("/episodes/{key}", _guarded(api.show), methods=["GET"]),
        Route("/", _guarded(api.show), methods=["GET"]),
        Route("/health", _guarded(api.health), methods=["GET"]),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _no_such_path})
    return BodyLimit(app, MAX_BODY, lambda message: openai_error(message, "request_too_large", 413))


class _Api:
    def __init__(
        self, section: Agent, sessions: SessionRegistry, batcher: Callable[[], Batcher], address: str
    ) -> None:
        self._section, self._sessions, self._batcher, self._address = section, sessions, batcher, address
        self._ignored = Ignored(strict=section.strict)

    def answering(self, dialect: Dialect) -> Handler:
        """The handler of a dialect's requests."""

        async def answer(request: Request) -> Response:
            session = self._session(request)
            asked = await _read(request, dialect.asked, session)
            asked.return_token_ids |= session.returns_token_ids
            headers = self._ignored.headers(session, asked)
            parts = await dialect.answer(session, asked, self._batcher())
            if asked.stream:  # its events are all known now, so that they are sent at once
                return Delivered(parts, b"".join(dialect.events(parts, asked)), headers, "text/event-stream")
            return Delivered(parts, encoded(dialect.document(parts, asked)), headers, "application/json")

        return answer

    async def count_tokens(self, request: Request) -> Response:
        """The number of tokens of a conversation's prompt, by Anthropic's API."""
        session = self._session(request)
        return Json(
            {"input_tokens": prompt_tokens(session, await _read(request, CountTokensRequest, session))}
        )

    async def models(self, request: Request) -> Response:
        """The roles, with the fields of OpenAI's and of Anthropic's API."""
        models = _models(self._session(request))
        ends = {"first_id": next(iter(models)), "last_id": list(models)[-1]}
        return Json({"object": "list", "data": list(models.values()), "has_more": False} | ends)

    async def model(self, request: Request) -> Response:
        """One role, with the fields of both APIs."""
        session = self._session(request)
        return Json(_models(session)[session.role_of(request.path_params["name"])])

    async def take(self, request: Request) -> Response:
        """The next episode that waits for an agent; 409 if there is none."""
        if not hmac.compare_digest(_bearer(request).encode(), self._sessions.token.encode()):
            raise RequestRefused("give the run's gateway token as a bearer token", 401, "invalid_api_key")
        session = self._sessions.take()
        if session is None:
            error = openai_error("no episode waits for an agent now; ask again", "no_episode", 409)
            return Json(error, 409, headers={"Retry-After": RETRY_AFTER})
        address = f"{self._address}/episodes/{session.key}"
        return Json(
            {
                "id": session.spec.episode.id,
                "key": session.key,
                "url": address,
                "base_url": f"{address}/v1",
                "roles": list(session.spec.clients),
                "data": session.spec.data,
            },
            201,
        )

    async def show(self, request: Request) -> Response:
        """The calls recorded so far, with their exact token ids."""
        session = self._session(request)
        calls = [
            {
                "id": call.id,
                "role": role,
                "goes_on_from": call.parent[0].id if call.parent else None,
                "messages": call.messages,
                "prompt_ids": call.prompt_ids,
                "answers": [
                    {
                        "token_ids": answer.token_ids,
                        "logprobs": answer.logprobs,
                        "versions": answer.versions,
                        "stop_reason": answer.stop_reason,
                        "text": answer.text,
                    }
                    for answer in call.answers
                ],
                "reward": call.reward,
            }
            for role, call in session.calls()
        ]
        closed = session.done.done()
        return Json({"id": session.spec.episode.id, "closed": closed, "calls": calls})

    async def reward(self, request: Request) -> Response:
        session = self._session(request)
        session.reward(_checked(await _object(request, session), _REPORT))
        return Json({"closed": False})

    async def close(self, request: Request) -> Response:
        """Close the episode, with a last report if given, and answer its outcome. An `error` marks it as failed, or gives it the
        reward of failures unless it is of the agent's `infrastructure`.
        """
        session = self._session(request)
        ending = _checked(await _object(request, session), _ENDING)
        if _REPORT & ending.keys():
            session.reward(ending)
        error = str(ending.get("error") or "")
        counts = error and not ending.get("infrastructure")
        end_failed(session, error, self._section.failure_reward if counts else None)
        outcome = session.outcome
        return Json(
            {"closed": True, "failed": bool(outcome.error), "error": outcome.error or outcome.failure}
        )

    async def health(self, request: Request) -> Response:
        return Json({"status": "ok"} | self._sessions.counts())

    def _session(self, request: Request) -> Session:
        key = request.path_params.get("key") or _bearer(request) or request.headers.get("x-api-key", "")
        return self._sessions.find(key)


def _models(session: Session) -> dict[str, dict[str, Any]]:
    """The roles as models."""
    return {
        role: {
            "id": role,
            "object": "model",
            "created": 0,
            "owned_by": client.policy,
            "type": "model",
            "display_name": role,
            "created_at": "1970-01-01T00:00:00Z",
        }
        for role, client in session.spec.clients.items()
    }


def _guarded(handler: Handler, failure: Failure = openai_error) -> Handler:
    """Convert refusals and internal errors to responses."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except RequestRefused as error:
            return Json(failure(str(error), error.code, error.status), error.status)
        except ClientDisconnect:
            raise
        except Exception as error:
            log.exception("a request to %s failed", _path(request))
            message = f"the gateway failed: {type(error).__name__}: {error}"
            return Json(failure(message, "internal_error", 500), 500)

    return answer


async def _no_such_path(request: Request, error: Exception) -> Response:
    """The response to unknown paths and methods."""
    assert isinstance(error, HTTPException)
    path = _path(request)
    remedy = next((text for part, text in _OTHER_APIS if part in path), _ANSWERED)
    body = openai_error(f"{error.detail}: {request.method} {path}; {remedy}", "not_found", error.status_code)
    return Json(body, error.status_code, headers=error.headers)


def _path(request: Request) -> str:
    """The path of a request without its episode's key, which authorises its holder."""
    return _KEY.sub("<key>", request.url.path)


def _bearer(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


async def _object(request: Request, session: Session) -> dict[str, Any]:
    """The body's fields; one that is null counts as absent. Raises RequestRefused.

    The episode's key is replaced in it, because agents quote it in errors that become part of a conversation or a report.
    """
    body = (await request.body()).replace(session.key.encode(), b"<key>")
    try:
        body_object = json.loads(body) if body else {}
        if _SURROGATE in body.lower():
            json.dumps(body_object, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise RequestRefused(f"the body is not JSON that can be read: {error}") from error
    if not isinstance(body_object, dict):
        raise RequestRefused("the body must be a JSON object")
    return {name: value for name, value in body_object.items() if value is not None}


def _checked(report: dict[str, Any], fields: set[str]) -> dict[str, Any]:
    """A report without other fields than these. Raises RequestRefused."""
    if unknown := report.keys() - fields:
        raise RequestRefused(f"there is no field {shorten(min(unknown))}; use {', '.join(sorted(fields))}")
    return report


async def _read(request: Request, kind: type[Asked], session: Session) -> Asked:
    """The request of a body. Raises RequestRefused."""
    try:
        return kind.model_validate(await _object(request, session))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        raise RequestRefused(f"{where}: {message}" if where else message) from error


HEADER = "x-troupe-ignored"
_FOLDED = "a role that the model's chat template refuses; its message is part of a neighbour"
MAX_HEADER = 4096
"""Characters of the header's value."""
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "tool_choice": ("auto", "none", {"type": "auto"}, {"type": "none"}),
    "response_format": ({"type": "text"},),
    "text.format": ({"type": "text"},),
    "output_config.format": ({"type": "text"},),
    "truncation": ("disabled",),
    "thinking": ({"type": "disabled"},),
    "service_tier": ("auto", "default"),
    "parallel_tool_calls": (True,),
    "logprobs": (0, 1),
    **dict.fromkeys(("presence_penalty", "frequency_penalty", "top_logprobs", "min_p", "min_tokens"), (0,)),
    **dict.fromkeys(("repetition_penalty", "length_penalty", "typical_p", "best_of"), (1,)),
    **dict.fromkeys(
        ("ignore_eos", "use_beam_search", "include_stop_str_in_output", "store", "background"), (False,)
    ),
    **dict.fromkeys(("skip_special_tokens", "spaces_between_special_tokens"), (True,)),
}
"""Values that ask for what the gateway does anyway."""


class Ignored:
    """Detects fields that change nothing in the answer to a request. `strict`: they are refused instead."""

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict
        self._logged: set[str] = set()

    def headers(self, session: Session, asked: Asked) -> dict[str, str]:
        """The header that names the ignored fields; empty if there are none. Raises RequestRefused for an unknown role,
        and with `strict` for a field that would be ignored.
        """
        client = session.spec.clients[session.role_of(asked.model)]
        answered = _NEUTRAL | _own_values(client.settings, continues=asked.continues)
        unapplied = asked.unapplied
        if request_grammar(asked, client):
            unapplied = {name: value for name, value in unapplied.items() if name not in asked.grammar_fields}
        if (chat := asked.chat) and client.renderer.folds(list(map(normalise_message, chat)), asked.offered):
            unapplied[f"{asked.conversation_field}.role"] = _FOLDED
        fields = {
            _name(field): value
            for field, value in unapplied.items()
            if not any(_equal(value, other) for other in answered.get(field, ()))
        }
        if not fields:
            return {}
        names = ", ".join(fields)
        if self._strict:
            raise RequestRefused(
                f"the gateway does not apply {names[:MAX_HEADER]}; remove it from the request, or set workflow.strict = false"
            )
        for name in fields.keys() - self._logged:
            self._log(name, fields[name], answered.get(name))
        return {HEADER: names if len(names) <= MAX_HEADER else f"{names[: MAX_HEADER - 4]} ..."}

    def _log(self, name: str, value: Any, answered: tuple[Any, ...] | None) -> None:
        """Warn once per field."""
        self._logged.add(name)
        reason = (
            f"answers have the role's own value {answered[0]:g}, with which its policy is trained; team.roles.*.sampling sets it"
            if name in ("temperature", "top_p", "top_k") and answered
            else f"the gateway does not apply it; the header {HEADER} names it, and workflow.strict = true refuses it"
        )
        log.warning("a request has %s = %s: %s. This warning appears once", name, reprlib.repr(value), reason)


def _own_values(settings: SamplingSettings, *, continues: bool) -> dict[str, tuple[Any, ...]]:
    """The values with which a role's requests are answered, by field."""
    return {
        "temperature": (0.0 if settings.greedy else settings.temperature,),
        "top_p": (settings.top_p,),
        "top_k": (settings.top_k,) if settings.top_k else (0, -1),
        "add_generation_prompt": (not continues,),
    }


def _equal(value: Any, other: Any) -> bool:
    if isinstance(value, float) and isinstance(other, float | int):
        return isclose(value, other, rel_tol=1e-6)
    return bool(value == other)


def _name(field: str) -> str:
    """A field's name as a header may contain it."""
    return re.sub(r"[^\w.-]", "?", field[:60], flags=re.ASCII)
