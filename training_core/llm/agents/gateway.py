"""What a workflow of agents asks of the gateway; the gateway itself is a server and lives with the workers."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from training_core.llm.agents.rendering import Renderer
from training_core.llm.agents.session import Session


class AgentGateway(Protocol):
    """An OpenAI-compatible server in front of the policies. Thread-safe."""

    renderers: Mapping[str, Renderer]
    """By policy."""

    def open(self, session: Session) -> str:
        """Let whoever holds the session's key play it; returns its base URL."""
        ...

    def offer(self, sessions: Sequence[Session]) -> None:
        """Hand these out, in order, to agents that ask for an episode."""
        ...

    def withdraw(self, sessions: Sequence[Session]) -> None:
        """Forget them. Raises what went wrong behind the gateway meanwhile and is no agent's fault."""
        ...
