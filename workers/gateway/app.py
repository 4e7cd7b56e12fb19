"""The gateway's HTTP surface: the OpenAI API below each episode's address, and episodes to take, reward and close.

A call whose client has gone before its response is sent counts as not received.
"""

import hmac
import json
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from training_core.config.rollout import Agent
from training_core.errors import RequestRefused
from training_core.llm.agents.messages import shorten
from training_core.llm.agents.session import Session, end_failed
from workers.gateway.answering import Answered, answer_chat, answer_text, discard
from workers.gateway.batching import Batcher
from workers.gateway.encoding import Json, encoded, event
from workers.gateway.ignored import Ignored
from workers.gateway.requests import ChatRequest, TextRequest
from workers.gateway.responses import chat_response, chat_stream, text_response, text_stream
from workers.gateway.session_registry import SessionRegistry
from workers.http.body_limit import BodyLimit, Receive, Send


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


def whole(parts: list[Answered], document: Any, headers: Mapping[str, str]) -> Delivered:
    """A response in one piece."""
    return Delivered(parts, encoded(document), headers, "application/json")


def streamed(
    parts: list[Answered], documents: Iterable[Mapping[str, Any]], headers: Mapping[str, str]
) -> Delivered:
    """A stream of server-sent events. They are all known when it begins, so that they are sent at once."""
    events = b"".join(map(event, documents)) + b"data: [DONE]\n\n"
    return Delivered(parts, events, headers, "text/event-stream")


log = logging.getLogger(__name__)
Asked = TypeVar("Asked", bound=BaseModel)
Handler = Callable[[Request], Awaitable[Response]]
MAX_BODY = 64 << 20
"""Bytes of one request."""
_SURROGATE = rb"\ud"
"""Start of an escaped surrogate in a body; tokenizers do not accept single surrogates."""
RETRY_AFTER = "1"
"""Seconds after which an agent that got no episode may retry."""
_REPORT = {"reward", "rewards", "success", "outcome"}
_ENDING = _REPORT | {"error", "infrastructure"}
_KEY = re.compile(r"^/episodes/[^/]+")
_CHAT = "use chat/completions"
_OTHER_APIS = {
    "/responses": f"the Responses API is not answered; {_CHAT}, in the OpenAI Agents SDK with OpenAIChatCompletionsModel",
    "/messages": f"Anthropic's API is not answered; {_CHAT} with a client of OpenAI's API",
    "/embeddings": f"a policy gives no embeddings; compute them elsewhere, and for its answers {_CHAT}",
}
"""Remedies by the end of a path."""
_ANSWERED = "the gateway answers POST chat/completions, POST completions and GET models below the base URL, which ends with /v1"


def make_app(
    section: Agent,
    sessions: SessionRegistry,
    batcher: Callable[[], Batcher],
    address: Callable[[Request], str],
) -> BodyLimit:
    """The application. `batcher` is called at each request, since the batcher is constructed in the server's event loop."""
    api = _Api(section, sessions, batcher, address)
    calls: list[tuple[str, Handler, str]] = [
        ("/v1/chat/completions", api.chat, "POST"),
        ("/v1/completions", api.text, "POST"),
        ("/v1/models", api.models, "GET"),
        ("/reward", api.reward, "POST"),
        ("/close", api.close, "POST"),
    ]
    routes = [
        Route(prefix + path, _guarded(handler), methods=[method])
        for prefix in ("/episodes/{key}", "")
        for path, handler, method in calls
    ]
    routes += [
        Route("/episodes", _guarded(api.take), methods=["POST"]),
        Route("/episodes/{key}", _guarded(api.show), methods=["GET"]),
        Route("/health", _guarded(api.health), methods=["GET"]),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _no_such_path})
    return BodyLimit(app, MAX_BODY, lambda message: _error(message, "request_too_large"))


class _Api:
    def __init__(
        self,
        section: Agent,
        sessions: SessionRegistry,
        batcher: Callable[[], Batcher],
        address: Callable[[Request], str],
    ) -> None:
        self._section, self._sessions, self._batcher, self._address = section, sessions, batcher, address
        self._ignored = Ignored(strict=section.strict)

    async def chat(self, request: Request) -> Response:
        session, asked = self._session(request), await _read(request, ChatRequest)
        asked = asked.with_token_ids(session.returns_token_ids)
        headers = self._ignored.headers(session, asked)
        answered = await answer_chat(session, asked, self._batcher())
        if asked.stream:
            return streamed([answered], chat_stream(answered, asked), headers)
        return whole([answered], chat_response(answered, asked), headers)

    async def text(self, request: Request) -> Response:
        session, asked = self._session(request), await _read(request, TextRequest)
        asked = asked.with_token_ids(session.returns_token_ids)
        headers = self._ignored.headers(session, asked)
        parts = await answer_text(session, asked, self._batcher())
        if asked.stream:
            return streamed(parts, text_stream(parts, asked), headers)
        return whole(parts, text_response(parts, asked), headers)

    async def models(self, request: Request) -> Response:
        clients = self._session(request).spec.clients
        data = [
            {"id": role, "object": "model", "created": 0, "owned_by": client.policy}
            for role, client in clients.items()
        ]
        return Json({"object": "list", "data": data})

    async def take(self, request: Request) -> Response:
        """The next episode that waits for an agent; 409 if there is none."""
        if not hmac.compare_digest(_bearer(request).encode(), self._sessions.token.encode()):
            raise RequestRefused("give the run's gateway token as a bearer token", 401, "invalid_api_key")
        session = self._sessions.take()
        if session is None:
            error = _error("no episode waits for an agent now; ask again", "no_episode")
            return Json(error, 409, headers={"Retry-After": RETRY_AFTER})
        address = f"{self._address(request)}/episodes/{session.key}"
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
        session.reward(_checked(await _object(request), _REPORT))
        return Json({"closed": False})

    async def close(self, request: Request) -> Response:
        """Close the episode, with a last report if given. An `error` marks it as failed, or gives it the reward of failures
        unless it is of the agent's `infrastructure`.
        """
        session, ending = self._session(request), _checked(await _object(request), _ENDING)
        if _REPORT & ending.keys():
            session.reward(ending)
        error = str(ending.get("error") or "")
        counts = error and not ending.get("infrastructure")
        end_failed(session, error, self._section.failure_reward if counts else None)
        return Json({"closed": True})

    async def health(self, request: Request) -> Response:
        return Json({"status": "ok"} | self._sessions.counts())

    def _session(self, request: Request) -> Session:
        key = request.path_params.get("key") or _bearer(request) or request.headers.get("x-api-key", "")
        return self._sessions.find(key)


def _guarded(handler: Handler) -> Handler:
    """Convert refusals and internal errors to responses in the OpenAI API's shape."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except RequestRefused as error:
            return _failure(str(error), error.code, error.status)
        except ClientDisconnect:
            raise
        except Exception as error:
            log.exception("a request to %s failed", _path(request))
            return _failure(f"the gateway failed: {type(error).__name__}: {error}", "internal_error", 500)

    return answer


async def _no_such_path(request: Request, error: Exception) -> Response:
    """The response to unknown paths and methods."""
    assert isinstance(error, HTTPException)
    path = _path(request)
    remedy = next((text for end, text in _OTHER_APIS.items() if path.endswith(end)), _ANSWERED)
    return Json(
        _error(f"{error.detail}: {request.method} {path}; {remedy}", "not_found"),
        error.status_code,
        headers=error.headers,
    )


def _path(request: Request) -> str:
    """The path of a request without its episode's key, which authorises its holder."""
    return _KEY.sub("/episodes/<key>", request.url.path)


def _failure(message: str, code: str, status: int) -> Response:
    """An error as a response."""
    return Json(_error(message, code, "server_error" if status >= 500 else "invalid_request_error"), status)


def _error(message: str, code: str, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _bearer(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


async def _object(request: Request) -> dict[str, Any]:
    """The body's fields; one that is null counts as absent. Raises RequestRefused."""
    body = await request.body()
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


async def _read(request: Request, kind: type[Asked]) -> Asked:
    try:
        return kind.model_validate(await _object(request))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        raise RequestRefused(f"{where}: {message}" if where else message) from error
