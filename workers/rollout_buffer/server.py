"""Serving a rollout buffer: a port, a token, a file that says where it is, and a line about how it stands."""

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
from workers.rollout_buffer.buffer import Place, RolloutBuffer
from workers.rollout_buffer.plugins import BUILT_IN, find_plugins
from workers.rollout_buffer.rules import Limits
from workers.rollout_buffer.service import make_app

PORT = 8889
TOKEN = "TROUPE_BUFFER_TOKEN"
_TRIED = 100
"""Ports after the wanted one."""
_LINE_EVERY = 2.0
"""Seconds between looks at how it stands."""


@dataclass(frozen=True)
class Settings:
    """All that `troupe buffer` can be told."""

    home: Path
    """TROUPE_HOME."""
    host: str = "127.0.0.1"
    port: int = PORT
    """Taken ones are passed over."""
    generators: Path | None = None
    """A folder of plugins beside the built-in ones."""
    data: Path | None = None
    """Where input files lie; the default is <home>/data."""
    limits: Limits = field(default_factory=Limits)

    @property
    def place(self) -> Place:
        """Folders of the buffer."""
        return Place(self.home / "rollout_buffer", self.data or self.home / "data")


def where(home: Path) -> Path:
    """The file that says where the service of a home is: {"url", "token", "pid"}, readable by its owner alone."""
    return home / "rollout_buffer.json"


def serve(settings: Settings) -> None:
    """Serve until interrupted. Raises TroupeError where no port is free or a folder is missing."""
    if settings.generators and not settings.generators.is_dir():
        raise TroupeError(
            f"there is no folder {settings.generators}; --generators names a folder of .py files"
        )
    token = os.environ.get(TOKEN, "").strip() or secrets.token_urlsafe(24)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (most, most)
    )  # a connection per writer, and there may be thousands
    listening = _bind(settings.host, settings.port)
    host, port = listening.getsockname()[:2]
    plugins = find_plugins([BUILT_IN, *([settings.generators] if settings.generators else [])])
    buffer = RolloutBuffer(settings.place, settings.limits, plugins, f"http://buffer:{token}@{host}:{port}")
    _announce(settings, f"http://{host}:{port}", token)
    _tell(f"rollout buffer on http://{host}:{port}, its token in {where(settings.home)}\n")
    _tell(f"generators: {', '.join(sorted(plugins.found))}; input files below {settings.place.data}\n")
    for name, error in plugins.broken.items():
        _tell(f"{name} cannot be loaded: {error}\n")
    try:
        for failure in buffer.resume():
            _tell(f"{failure}\n")
        asyncio.run(_serve(buffer, token, listening))
    except KeyboardInterrupt:
        pass
    finally:
        buffer.close()
        _tell("\nrollout buffer ended; what it holds is on disk\n")


async def _serve(buffer: RolloutBuffer, token: str, listening: socket.socket) -> None:
    config = uvicorn.Config(
        make_app(buffer, token), log_level="warning", access_log=False, lifespan="off", backlog=4096
    )
    line = asyncio.create_task(_show(buffer))
    await uvicorn.Server(config).serve(sockets=[listening])
    line.cancel()


async def _show(buffer: RolloutBuffer) -> None:
    """On a terminal one line that changes; in a log, a line where something has changed."""
    last = ""
    while True:
        await asyncio.sleep(_LINE_EVERY)
        text = "; ".join(_standing(buffer, name) for name in buffer.names())
        if text != last:
            _tell(f"\r\x1b[2K{text}" if sys.stderr.isatty() else f"{text}\n")
            last = text


def _standing(buffer: RolloutBuffer, name: str) -> str:
    stats = buffer.channel(name).stats()
    return (
        f"{name or 'default'}: {stats['current_size']:,} of {stats['max_size']:,} records held, "
        f"{stats['open_groups']:,} groups open, {stats['ready_groups']:,} ready, {stats['groups_finished']:,} handed out, "
        f"{stats['groups_timed_out']:,} timed out, {stats['groups_dropped']:,} dropped, "
        f"rollout {buffer.rollout(name)['state']}"
    )


def _bind(host: str, first: int) -> socket.socket:
    """The wanted port or the next free one (0: any). Raises TroupeError."""
    for port in range(first, first + _TRIED) if first else [0]:
        listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):
            listening.bind((host, port))
            return listening
        listening.close()
    raise TroupeError(f"no port of {host} is free from {first} on; name another with --port")


def _announce(settings: Settings, url: str, token: str) -> None:
    """Write the file whole, readable by its owner alone from its first byte on."""
    settings.home.mkdir(parents=True, exist_ok=True)
    settings.place.data.mkdir(parents=True, exist_ok=True)
    place = where(settings.home)
    draft = place.with_suffix(f".{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump({"url": url, "token": token, "pid": os.getpid()}, file)
    draft.rename(place)


def _tell(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
