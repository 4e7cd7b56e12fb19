"""The gateway: an OpenAI-compatible server on 127.0.0.1, in the coordinator's process, in front of the policies."""

import asyncio
import secrets
import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import uvicorn

from training_core.config.rollout import Agent
from training_core.errors import ConfigError, TroupeError
from training_core.llm.agents.rendering import Renderer
from training_core.llm.agents.session import Session, SessionRegistry
from workers.gateway.answering import Batcher
from workers.gateway.app import make_app

HOST = "127.0.0.1"
_START_SECONDS = 30.0


class Gateway:
    """An AgentGateway that serves in its own thread from `start` to `close`."""

    def __init__(self, section: Agent, tokenizers: Mapping[str, Any], *, threads: int) -> None:
        self.renderers = {policy: Renderer(tokenizer) for policy, tokenizer in tokenizers.items()}
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
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, self._section.port))
        except OSError as error:
            listener.close()
            raise ConfigError(
                {"workflow.port": f"cannot listen on port {self._section.port}: {error.strerror}"},
                remedy="choose another port, or 0 for a free one",
            ) from error
        self.url = f"http://{HOST}:{listener.getsockname()[1]}"
        app = make_app(self._section, self._sessions, self._in_loop, lambda: self.url)
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

    def _in_loop(self) -> Batcher:
        assert self._batcher is not None, "made before the server listens"
        return self._batcher

    def _serve(self, listener: socket.socket) -> None:
        assert self._server is not None

        async def serve(server: uvicorn.Server) -> None:
            self._batcher = Batcher(self._section.batch_window / 1000, self._threads)
            listener.listen(2048)
            self._ready.set()
            await server.serve(sockets=[listener])
            self._batcher.close()

        asyncio.run(serve(self._server))
        listener.close()
