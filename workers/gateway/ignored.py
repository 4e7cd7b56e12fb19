"""What a request asks for and does not get: told in a header of each answer, and once per run in its log."""

import logging
from math import isclose

from training_core.llm.agents.session import Session
from workers.gateway.requests import ChatRequest, TextRequest

HEADER = "x-troupe-ignored"
log = logging.getLogger(__name__)


class Ignored:
    """Sampling settings of requests that differ from those of the role, which tokens are drawn with."""

    def __init__(self) -> None:
        self._told = False

    def headers(self, session: Session, asked: ChatRequest | TextRequest) -> dict[str, str]:
        """The header that names them; none where everything is as asked. Raises RequestRefused for an unknown role."""
        settings = session.seat.voices[session.role_of(asked.model)].settings
        own = {"temperature": 0.0 if settings.greedy else settings.temperature, "top_p": settings.top_p}
        wanted = {"temperature": asked.temperature, "top_p": asked.top_p}
        other = {
            name: value
            for name, value in wanted.items()
            if value is not None and not isclose(value, own[name], rel_tol=1e-6)
        }
        if not other:
            return {}
        if not self._told:
            self._told = True
            log.warning(
                "a request asked for %s; the run draws with the role's own settings (%s), for the policy learns from that "
                "distribution. Set team.roles.*.sampling to change them. This is said once",
                ", ".join(f"{name} = {value:g}" for name, value in other.items()),
                ", ".join(f"{name} = {own[name]:g}" for name in other),
            )
        return {HEADER: ", ".join(other)}
