"""The HTTP service of a rollout buffer: slime's endpoints and shapes, a bearer token, 429 if it is full.

Every path exists at the root, and under /channels/<name>/ for further runs. A response is an envelope
{success, message, data}; an error has success = false, data = null and the remedy in `message`.
"""

import asyncio
import base64
import contextlib
import hmac
import os
import resource
import secrets
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from training_core.config.rollout import SERVICE_HEADER
from training_core.errors import TroupeError
from workers.http import BodyLimit, listen, write_private
from workers.rollout_buffer.buffer import BufferFull, RolloutBuffer
from workers.rollout_buffer.plugins import BUILT_IN, PluginFailure, find_plugins
from workers.rollout_buffer.rules import BufferLimits, finite, whole_number

RETRY_SECONDS = 2
"""Seconds after which a writer retries if the buffer is full."""
_POLL_SECONDS = 0.05
"""Seconds between polls for a waiting reader."""
LONGEST_WAIT = 60.0
MAX_BODY = 64 << 20
"""Maximum bytes of one request: a record with its messages, or the instances that a resumed rollout skips."""
Endpoint = Callable[[str, bytes], Any]


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
    """One method per endpoint: (channel, body) -> document. They run in threads, so that a slow read does not block writers."""

    def __init__(self, buffer: RolloutBuffer) -> None:
        self._buffer = buffer

    def home(self, name: str, body: bytes) -> Any:
        return {"message": "Rollout buffer", "task_types": sorted(self._buffer.plugins.found)}

    def start_rollout(self, name: str, body: bytes) -> Any:
        self._buffer.start_rollout(name, _object(body))
        return {"message": "Rollout started"}

    def stop_rollout(self, name: str, body: bytes) -> Any:
        self._buffer.stop_rollout(name)
        return {"message": "Rollout stopped"}

    def write(self, name: str, body: bytes) -> Any:
        record = self._buffer.channel(name).write(_object(body))
        return _envelope("Data has been successfully written to buffer", [record], "write to buffer")

    def get_rollout_data(self, name: str, body: bytes) -> Any:
        return self._read(name, _object(body), 0.0)

    def read(self, name: str, body: bytes) -> Any:
        request = _object(body)
        return self._read(name, request, min(finite(request.get("timeout", 0), "timeout"), LONGEST_WAIT))

    def peek(self, name: str, body: bytes) -> Any:
        group = self._buffer.channel(name).peek()
        return _envelope("Next group" if group else "No group is ready", group, {}, success=bool(group))

    def stats(self, name: str, body: bytes) -> Any:
        data = {**self._buffer.channel(name).stats(), "rollout": self._buffer.rollout(name)}
        return {"success": True, "message": "Buffer statistics", "data": data}

    def _read(self, name: str, request: Mapping[str, Any], wait: float) -> Any:
        """Deliver groups; wait at most `wait` seconds for them."""
        most, number = request.get("batch_size"), request.get("delivery")
        size = whole_number(most, "batch_size") if most is not None else None
        acknowledged = int(finite(number, "delivery")) if number is not None else None
        channel, until = self._buffer.channel(name), time.monotonic() + wait
        delivery = channel.read(acknowledged, size)
        while not delivery.records and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
            delivery = channel.read(acknowledged, size)
        meta = {**delivery.meta_info, "delivery": delivery.number, "buffer": channel.stats()}
        meta["rollout"] = self._buffer.rollout(name)
        if not delivery.meta_info["finished_groups"]:
            return _envelope("No group is ready", [], meta, success=False)
        return _envelope(f"{len(delivery.records)} records", delivery.records, meta)


def _guarded(endpoint: Endpoint, token: str) -> Callable[[Request], Awaitable[Response]]:
    """A route of an endpoint, which checks the token and converts errors to envelopes."""

    async def answer(request: Request) -> Response:
        if token and not hmac.compare_digest(_given_token(request).encode(), token.encode()):
            return _failure(401, "the buffer's token is missing or wrong; send Authorization: Bearer TOKEN")
        channel = str(request.path_params.get("channel", ""))
        try:
            return _json(await run_in_threadpool(endpoint, channel, await request.body()))
        except BufferFull:
            message = f"the buffer is full; ask again in {RETRY_SECONDS} s, or read from it"
            return _failure(429, message, {"Retry-After": str(RETRY_SECONDS)})
        except (ValueError, PluginFailure) as error:
            return _failure(400, str(error))
        except Exception as error:  # a plugin or the disk: the writer must know that nothing was stored
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


def _object(body: bytes) -> dict[str, Any]:
    """A request's JSON object. Raises ValueError."""
    content = orjson.loads(body) if body.strip() else {}
    if not isinstance(content, dict):
        raise ValueError("send one JSON object")
    return content


def _envelope(message: str, records: Any, meta: Any, *, success: bool = True) -> dict[str, Any]:
    return {"success": success, "message": message, "data": {"data": records, "meta_info": meta}}


def _failure(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    return _json({"success": False, "message": message, "data": None}, status, headers)


def _json(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(
        orjson.dumps(content), status, {SERVICE_HEADER: "1"} | (headers or {}), "application/json"
    )


PORT = 8889
TOKEN = "TROUPE_BUFFER_TOKEN"
_MAX_PORTS = 100
"""Number of ports to try, from the requested one."""
_STATUS_SECONDS = 2.0
"""Seconds between status lines."""


@dataclass(frozen=True)
class Settings:
    """Options of `troupe buffer serve`."""

    home: Path
    """TROUPE_HOME."""
    host: str = "127.0.0.1"
    port: int = PORT
    """First port to try."""
    generators: Path | None = None
    """A folder of plugins in addition to the built-in ones."""
    data: Path | None = None
    """Folder of input files; the default is <home>/data."""
    limits: BufferLimits = field(default_factory=BufferLimits)

    @property
    def data_folder(self) -> Path:
        """Folder of input files."""
        return self.data or self.home / "data"


def where(home: Path) -> Path:
    """The file with the address of a home's service: {"url", "token", "pid"}, readable only by its owner."""
    return home / "rollout_buffer.json"


def serve(settings: Settings) -> None:
    """Serve until interrupted. Raises TroupeError if no port is free or a folder is missing."""
    if settings.generators and not settings.generators.is_dir():
        raise TroupeError(
            f"there is no folder {settings.generators}; --generators names a folder of .py files"
        )
    token = os.environ.get(TOKEN, "").strip() or secrets.token_urlsafe(24)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # one connection per writer, possibly thousands
    listening = _bind(settings.host, settings.port)
    host, port = listening.getsockname()[:2]
    plugins = find_plugins([BUILT_IN, *([settings.generators] if settings.generators else [])])
    folder, address = settings.home / "rollout_buffer", f"http://buffer:{token}@{host}:{port}"
    buffer = RolloutBuffer(folder, settings.data_folder, settings.limits, plugins, address)
    settings.home.mkdir(parents=True, exist_ok=True)
    settings.data_folder.mkdir(parents=True, exist_ok=True)
    write_private(where(settings.home), {"url": f"http://{host}:{port}", "token": token, "pid": os.getpid()})
    _print(f"rollout buffer on http://{host}:{port}, its token in {where(settings.home)}\n")
    _print(f"generators: {', '.join(sorted(plugins.found))}; input files below {settings.data_folder}\n")
    for name, error in plugins.broken.items():
        _print(f"{name} cannot be loaded: {error}\n")
    try:
        for failure in buffer.resume():
            _print(f"{failure}\n")
        asyncio.run(_serve(buffer, token, listening))
    except KeyboardInterrupt:
        pass
    finally:
        buffer.close()
        _print("\nrollout buffer ended; its records are on disk\n")


async def _serve(buffer: RolloutBuffer, token: str, listening: socket.socket) -> None:
    config = uvicorn.Config(
        make_app(buffer, token), log_level="warning", access_log=False, lifespan="off", backlog=4096
    )
    line = asyncio.create_task(_show(buffer))
    await uvicorn.Server(config).serve(sockets=[listening])
    line.cancel()


async def _show(buffer: RolloutBuffer) -> None:
    """Print the status: on a terminal as one changing line, in a log as a line per change."""
    last = ""
    while True:
        await asyncio.sleep(_STATUS_SECONDS)
        text = "; ".join(_status(buffer, name) for name in buffer.names())
        if text != last:
            _print(f"\r\x1b[2K{text}" if sys.stderr.isatty() else f"{text}\n")
            last = text


def _status(buffer: RolloutBuffer, name: str) -> str:
    stats = buffer.channel(name).stats()
    return (
        f"{name or 'default'}: {stats['current_size']:,} of {stats['max_size']:,} records held, "
        f"{stats['open_groups']:,} groups open, {stats['ready_groups']:,} ready, {stats['groups_finished']:,} handed out, "
        f"{stats['groups_timed_out']:,} timed out, {stats['groups_dropped']:,} dropped, "
        f"rollout {buffer.rollout(name)['state']}"
    )


def _bind(host: str, first: int) -> socket.socket:
    """Bind the requested port or the next free one (0: any). Raises TroupeError."""
    for port in range(first, first + _MAX_PORTS) if first else [0]:
        with contextlib.suppress(OSError):
            return listen(host, port)
    raise TroupeError(f"no port of {host} is free from {first} on; name another with --port")


def _print(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
