"""Serves a rollout buffer: port, token, a file with its address, and a status line."""

import asyncio
import contextlib
import json
import os
import resource
import secrets
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn

from training_core.errors import TroupeError
from workers.rollout_buffer.buffer import BufferFolders, RolloutBuffer
from workers.rollout_buffer.plugins import BUILT_IN, find_plugins
from workers.rollout_buffer.rules import BufferLimits
from workers.rollout_buffer.service import make_app

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
    def folders(self) -> BufferFolders:
        """Folders of the buffer."""
        return BufferFolders(self.home / "rollout_buffer", self.data or self.home / "data")


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
    buffer = RolloutBuffer(settings.folders, settings.limits, plugins, f"http://buffer:{token}@{host}:{port}")
    _announce(settings, f"http://{host}:{port}", token)
    _print(f"rollout buffer on http://{host}:{port}, its token in {where(settings.home)}\n")
    _print(f"generators: {', '.join(sorted(plugins.found))}; input files below {settings.folders.data}\n")
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
        listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):
            listening.bind((host, port))
            return listening
        listening.close()
    raise TroupeError(f"no port of {host} is free from {first} on; name another with --port")


def _announce(settings: Settings, url: str, token: str) -> None:
    """Write the address file atomically, readable only by its owner from the start."""
    settings.home.mkdir(parents=True, exist_ok=True)
    settings.folders.data.mkdir(parents=True, exist_ok=True)
    path = where(settings.home)
    draft = path.with_suffix(f".{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump({"url": url, "token": token, "pid": os.getpid()}, file)
    draft.rename(path)


def _print(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
