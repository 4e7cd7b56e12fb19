"""Registry of open episodes and of episodes that wait for an agent."""

import threading
from collections import deque
from collections.abc import Sequence

from training_core.errors import RequestRefused
from training_core.llm.agents.session import Session


class SessionRegistry:
    """Thread-safe: a workflow opens and withdraws sessions, the server looks them up and assigns them to agents."""

    def __init__(self, token: str) -> None:
        self.token = token
        """Token that an external agent needs to take an episode."""
        self._lock = threading.Lock()
        self._open: dict[str, Session] = {}
        self._offered: deque[Session] = deque()

    def open(self, session: Session) -> None:
        """Open a session for the holder of its key."""
        with self._lock:
            session.accept()
            self._open[session.key] = session

    def offer(self, sessions: Sequence[Session]) -> None:
        """Offer sessions to external agents, in order."""
        with self._lock:
            self._offered.extend(sessions)

    def take(self) -> Session | None:
        """Open and return the next waiting session; None if there is none."""
        with self._lock:
            if not self._offered:
                return None
            session = self._offered.popleft()
            session.accept()
            self._open[session.key] = session
            return session

    def find(self, key: str) -> Session:
        """The open episode of this key. Raises RequestRefused."""
        with self._lock:
            session = self._open.get(key)
        if session is None:
            raise RequestRefused(
                "no open episode has this key; use the episode's base_url, or its key as the API key",
                401,
                "invalid_api_key",
            )
        return session

    def withdraw(self, sessions: Sequence[Session]) -> None:
        """Close and remove sessions."""
        with self._lock:
            keys = {session.key for session in sessions}
            self._offered = deque(session for session in self._offered if session.key not in keys)
            for session in sessions:
                self._open.pop(session.key, None)
        for session in sessions:
            session.close("the agent did not close the episode")

    def counts(self) -> dict[str, int]:
        """Number of open episodes, and of those that wait for an agent."""
        with self._lock:
            return {"open": len(self._open), "waiting": len(self._offered)}
