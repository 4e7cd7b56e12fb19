"""The gateway: an OpenAI-compatible server on 127.0.0.1, in the coordinator's process, in front of the policies.

Its address is published to external agents while the run lasts. The web server is imported on start: other runs and
drivers need none.
"""

import asyncio
import json
import secrets
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Any

from training_core.config.rollout import Agent, RolloutBuffer
from training_core.config.run import RunConfig
from training_core.errors import ConfigError, TroupeError
from training_core.llm.agents.session import Session, SessionRegistry
from training_core.llm.generation.rendering import Renderer
from workers.http import listen, write_private
from workers.protocol import Started

if TYPE_CHECKING:
    import uvicorn

    from workers.gateway.answering import Batcher

HOST = "127.0.0.1"
_START_SECONDS = 30.0
FILE = "gateway.json"
"""In the run's folder, readable by its owner only."""


class Gateway:
    """An AgentGateway that serves in its own thread from `start` to `close`."""

    def __init__(self, section: Agent, tokenizers: Mapping[str, Any], *, threads: int) -> None:
        self.renderers: Mapping[str, Renderer] = {
            policy: Renderer(tokenizer) for policy, tokenizer in tokenizers.items()
        }
        self.token = secrets.token_urlsafe(24)
        self._section = section
        self._threads = threads
        """Number of policies that may generate at the same time."""
        self._sessions = SessionRegistry(self.token)
        self._batcher: Batcher | None = None
        self._ready = threading.Event()
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self.url = ""

    def start(self) -> str:
        """Listen, and return the address. Raises ConfigError if the port is in use."""
        import uvicorn

        from workers.gateway.app import make_app

        port = self._section.port
        try:
            listener = listen(HOST, port)
        except OSError as error:
            raise ConfigError(
                {"workflow.port": f"cannot listen on port {port}: {error.strerror}"},
                remedy="choose another port, or 0 for a free one",
            ) from error
        self.url = f"http://{HOST}:{listener.getsockname()[1]}"
        app = make_app(self._section, self._sessions, self._in_loop, self.url)
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, lifespan="off", timeout_keep_alive=75
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, args=(listener,), name="gateway", daemon=True)
        self._thread.start()
        if not self._ready.wait(_START_SECONDS):
            raise TroupeError("the gateway's server did not start")
        return self.url

    def open(self, session: Session) -> str:
        self._sessions.open(session)
        return f"{self.url}/episodes/{session.key}/v1"

    def offer(self, sessions: Sequence[Session]) -> None:
        self._sessions.offer(sessions)

    def withdraw(self, sessions: Sequence[Session]) -> None:
        self._sessions.withdraw(sessions)
        if self._batcher is not None and self._batcher.failure is not None:
            failure, self._batcher.failure = self._batcher.failure, None
            raise failure

    def close(self) -> None:
        """Stop the server."""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join()
            self._server = self._thread = None

    def _in_loop(self) -> "Batcher":
        assert self._batcher is not None, "made before the server listens"
        return self._batcher

    def _serve(self, listener: socket) -> None:
        from workers.gateway.answering import Batcher

        assert self._server is not None

        async def serve(server: "uvicorn.Server") -> None:
            self._batcher = Batcher(self._section.batch_window / 1000, self._threads)
            listener.listen(2048)
            self._ready.set()
            await server.serve(sockets=[listener])
            self._batcher.close()

        asyncio.run(serve(self._server))
        listener.close()


def open_gateway(config: RunConfig, tokenizers: Mapping[str, Any], threads: int) -> Gateway | None:
    """A started gateway, or None if the workflow needs none. `threads`: number of policies that generate at once.

    Raises ConfigError if its port is in use.
    """
    section = config.workflow
    if isinstance(section, RolloutBuffer) and section.engine_url == "policies":
        section = Agent()  # the buffer's generator calls the run's policies
    if not isinstance(section, Agent):
        return None
    gateway = Gateway(section, tokenizers, threads=threads)
    gateway.start()
    return gateway


def announce(started: Started, folder: Path) -> None:
    """Write address and token of the gateway to <folder>/gateway.json atomically, if the run has one."""
    if started.gateway is not None:
        write_private(folder / FILE, started.gateway)


def retract(started: Started | None, folder: Path) -> None:
    """Remove the file, unless it has the address of another attempt."""
    file = folder / FILE
    if started and started.gateway and file.exists() and json.loads(file.read_text()) == started.gateway:
        file.unlink()
