"""The HTTP service of a rollout buffer: slime's endpoints and shapes, a bearer token, 429 if it is full.

Every path exists at the root, and under /channels/<name>/ for further runs. A response is an envelope
{success, message, data}; an error has success = false, data = null and the remedy in `message`.
"""

import base64
import hmac
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from workers.http.body_limit import BodyLimit
from workers.rollout_buffer.buffer import RolloutBuffer, whole_number
from workers.rollout_buffer.channel import BufferFull, Delivery
from workers.rollout_buffer.plugins import PluginFailure
from workers.rollout_buffer.rules import finite

RETRY_SECONDS = 2
"""Seconds after which a writer retries if the buffer is full."""
_POLL_SECONDS = 0.05
"""Seconds between polls for a waiting reader."""
LONGEST_WAIT = 60.0
MAX_BODY = 64 << 20
"""Maximum bytes of one request: a record with its messages, or the instances that a resumed rollout skips."""
Endpoint = Callable[[Request], Awaitable[Response]]


def make_app(buffer: RolloutBuffer, token: str) -> BodyLimit:
    """The service. An empty token disables authentication, for tests in one process."""
    endpoints = _Endpoints(buffer)
    routes = [
        Route(path, _guarded(endpoint, token), methods=[method])
        for method, path, endpoint in (
            ("GET", "/", endpoints.home),
            ("POST", "/start_rollout", endpoints.start_rollout),
            ("POST", "/stop_rollout", endpoints.stop_rollout),
            ("POST", "/buffer/write", endpoints.write),
            ("POST", "/get_rollout_data", endpoints.get_rollout_data),
            ("POST", "/buffer/read", endpoints.read),
            ("GET", "/buffer/peek", endpoints.peek),
            ("GET", "/buffer/stats", endpoints.stats),
            ("GET", "/stats", endpoints.stats),
        )
    ]
    app = Starlette(routes=[*routes, Mount("/channels/{channel}", routes=routes)])
    return BodyLimit(app, MAX_BODY, lambda message: {"success": False, "message": message, "data": None})


class _Endpoints:
    """One method per endpoint. Disk work runs in threads, so that a slow read does not block writers."""

    def __init__(self, buffer: RolloutBuffer) -> None:
        self._buffer = buffer

    async def home(self, request: Request) -> Response:
        return _json({"message": "Rollout buffer", "task_types": sorted(self._buffer.plugins.found)})

    async def start_rollout(self, request: Request) -> Response:
        await run_in_threadpool(self._buffer.start_rollout, _channel(request), await _body(request))
        return _json({"message": "Rollout started"})

    async def stop_rollout(self, request: Request) -> Response:
        await run_in_threadpool(self._buffer.stop_rollout, _channel(request))
        return _json({"message": "Rollout stopped"})

    async def write(self, request: Request) -> Response:
        channel = self._buffer.channel(_channel(request))
        record = await run_in_threadpool(channel.write, await _body(request))
        return _envelope("Data has been successfully written to buffer", [record], "write to buffer")

    async def get_rollout_data(self, request: Request) -> Response:
        body = await _body(request)
        return await run_in_threadpool(self._read, _channel(request), body, 0.0)

    async def read(self, request: Request) -> Response:
        body = await _body(request)
        wait = min(finite(body.get("timeout", 0), "timeout"), LONGEST_WAIT)
        return await run_in_threadpool(self._read, _channel(request), body, wait)

    async def peek(self, request: Request) -> Response:
        group = await run_in_threadpool(self._buffer.channel(_channel(request)).peek)
        return _envelope("Next group" if group else "No group is ready", group, {}, success=bool(group))

    async def stats(self, request: Request) -> Response:
        name = _channel(request)
        stats = await run_in_threadpool(self._buffer.channel(name).stats)
        data = {**stats, "rollout": self._buffer.rollout(name)}
        return _json({"success": True, "message": "Buffer statistics", "data": data})

    def _read(self, name: str, body: Mapping[str, Any], wait: float) -> Response:
        """Deliver groups; wait at most `wait` seconds for them."""
        most = body.get("batch_size")
        size = whole_number(most, "batch_size") if most is not None else None
        number = body.get("delivery")
        acknowledged = int(finite(number, "delivery")) if number is not None else None
        channel, until = self._buffer.channel(name), time.monotonic() + wait
        delivery = channel.read(acknowledged, size)
        while not delivery.records and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
            delivery = channel.read(acknowledged, size)
        return self._delivered(name, delivery)

    def _delivered(self, name: str, delivery: Delivery) -> Response:
        stats = self._buffer.channel(name).stats()
        meta = {**delivery.meta_info, "delivery": delivery.number, "buffer": stats}
        meta["rollout"] = self._buffer.rollout(name)
        if not delivery.meta_info["finished_groups"]:
            return _envelope("No group is ready", [], meta, success=False)
        return _envelope(f"{len(delivery.records)} records", delivery.records, meta)


def _guarded(endpoint: Endpoint, token: str) -> Endpoint:
    """An endpoint that checks the token and converts errors to envelopes."""

    async def answer(request: Request) -> Response:
        if token and not hmac.compare_digest(_given_token(request).encode(), token.encode()):
            return _failure(401, "the buffer's token is missing or wrong; send Authorization: Bearer TOKEN")
        try:
            return await endpoint(request)
        except BufferFull:
            message = f"the buffer is full; ask again in {RETRY_SECONDS} s, or read from it"
            return _failure(429, message, {"Retry-After": str(RETRY_SECONDS)})
        except (ValueError, PluginFailure) as error:
            return _failure(400, str(error))
        except (
            Exception
        ) as error:  # a plugin's function or the disk: the writer must know that nothing was stored
            return _failure(500, f"{type(error).__name__}: {error}")

    return answer


def _given_token(request: Request) -> str:
    """The token from `Bearer TOKEN`, or from the password of an address http://buffer:TOKEN@host."""
    kind, _, value = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "basic":
        try:
            return base64.b64decode(value).decode().partition(":")[2]
        except ValueError:
            return ""
    return value if kind.lower() == "bearer" else ""


def _channel(request: Request) -> str:
    return str(request.path_params.get("channel", ""))


async def _body(request: Request) -> Any:
    """The request's JSON object. Raises ValueError."""
    raw = await request.body()
    body = orjson.loads(raw) if raw.strip() else {}
    if not isinstance(body, dict):
        raise ValueError("send one JSON object")
    return body


def _envelope(message: str, records: Any, meta: Any, *, success: bool = True) -> Response:
    return _json({"success": success, "message": message, "data": {"data": records, "meta_info": meta}})


def _failure(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    return _json({"success": False, "message": message, "data": None}, status, headers)


def _json(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(content), status, headers, "application/json")
