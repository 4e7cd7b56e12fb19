"""The gateway's interface for agent workflows; the gateway itself is a server in the workers package."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from training_core.llm.agents.rendering import Renderer
from training_core.llm.agents.session import Session


class AgentGateway(Protocol):
    """An OpenAI-compatible server in front of the policies. Thread-safe."""

    renderers: Mapping[str, Renderer]
    """Renderer by policy."""

    def open(self, session: Session) -> str:
        """Allow the holder of the session's key to play it; return its base URL."""
        ...

    def offer(self, sessions: Sequence[Session]) -> None:
        """Assign these, in order, to agents that request an episode."""
        ...

    def withdraw(self, sessions: Sequence[Session]) -> None:
        """Remove them. Raises errors that occurred behind the gateway and are not caused by an agent."""
        ...
