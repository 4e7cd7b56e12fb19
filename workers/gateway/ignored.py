"""Request parameters that are ignored: listed in a header of each response, and once per run in its log."""

import logging
from math import isclose

from training_core.llm.agents.session import Session
from workers.gateway.requests import ChatRequest, TextRequest

HEADER = "x-troupe-ignored"
log = logging.getLogger(__name__)


class Ignored:
    """Detects sampling settings in requests that differ from the role's, which are used instead."""

    def __init__(self) -> None:
        self._logged = False

    def headers(self, session: Session, asked: ChatRequest | TextRequest) -> dict[str, str]:
        """The header that names the ignored settings; empty if there are none. Raises RequestRefused for an unknown role."""
        settings = session.spec.clients[session.role_of(asked.model)].settings
        own = {"temperature": 0.0 if settings.greedy else settings.temperature, "top_p": settings.top_p}
        requested = {"temperature": asked.temperature, "top_p": asked.top_p}
        ignored = {
            name: value
            for name, value in requested.items()
            if value is not None and not isclose(value, own[name], rel_tol=1e-6)
        }
        if not ignored:
            return {}
        if not self._logged:
            self._logged = True
            log.warning(
                "a request asked for %s; the run samples with the role's own settings (%s), because the policy learns from that "
                "distribution. Set team.roles.*.sampling to change them. This warning appears once",
                ", ".join(f"{name} = {value:g}" for name, value in ignored.items()),
                ", ".join(f"{name} = {own[name]:g}" for name in ignored),
            )
        return {HEADER: ", ".join(ignored)}
