"""Request fields that the gateway does not apply: named in a header of each response, and once per field in the run's log."""

import logging
import re
import reprlib
from math import isclose
from typing import Any

from training_core.errors import RequestRefused
from training_core.llm.agents.session import Session
from training_core.llm.generation.base import SamplingSettings
from workers.gateway.answering import Asked

HEADER = "x-troupe-ignored"
MAX_HEADER = 4096
"""Characters of the header's value."""
log = logging.getLogger(__name__)

_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "tool_choice": ("auto", "none"),
    "response_format": ({"type": "text"},),
    "parallel_tool_calls": (True,),
    "logprobs": (0, 1),
    **dict.fromkeys(("presence_penalty", "frequency_penalty", "top_logprobs", "min_p", "min_tokens"), (0,)),
    **dict.fromkeys(("repetition_penalty", "length_penalty", "typical_p", "best_of"), (1,)),
    **dict.fromkeys(("ignore_eos", "use_beam_search", "include_stop_str_in_output", "store"), (False,)),
    **dict.fromkeys(("skip_special_tokens", "spaces_between_special_tokens"), (True,)),
}
"""Values that ask for what the gateway does anyway."""


class Ignored:
    """Detects fields that change nothing in the answer to a request. `strict`: they are refused instead."""

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict
        self._logged: set[str] = set()

    def headers(self, session: Session, asked: Asked) -> dict[str, str]:
        """The header that names the ignored fields; empty if there are none. Raises RequestRefused for an unknown role,
        and with `strict` for a field that would be ignored.
        """
        settings = session.spec.clients[session.role_of(asked.model)].settings
        answered = _NEUTRAL | _own_values(settings, continues=asked.continues)
        fields = {
            _name(field): value
            for field, value in asked.unapplied.items()
            if not any(_equal(value, other) for other in answered.get(field, ()))
        }
        if not fields:
            return {}
        names = ", ".join(fields)
        if self._strict:
            raise RequestRefused(
                f"the gateway does not apply {names[:MAX_HEADER]}; remove it from the request, or set workflow.strict = false"
            )
        for name in fields.keys() - self._logged:
            self._log(name, fields[name], answered.get(name))
        return {HEADER: names if len(names) <= MAX_HEADER else f"{names[: MAX_HEADER - 4]} ..."}

    def _log(self, name: str, value: Any, answered: tuple[Any, ...] | None) -> None:
        """Warn once per field."""
        self._logged.add(name)
        reason = (
            f"the run samples with the role's own value {answered[0]:g}, because the policy learns from that distribution; "
            "team.roles.*.sampling sets it"
            if name in ("temperature", "top_p", "top_k") and answered
            else f"the gateway does not apply it; the header {HEADER} names it, and workflow.strict = true refuses it"
        )
        log.warning("a request has %s = %s: %s. This warning appears once", name, reprlib.repr(value), reason)


def _own_values(settings: SamplingSettings, *, continues: bool) -> dict[str, tuple[Any, ...]]:
    """The values with which a role's requests are answered, by field."""
    return {
        "temperature": (0.0 if settings.greedy else settings.temperature,),
        "top_p": (settings.top_p,),
        "top_k": (settings.top_k,) if settings.top_k else (0, -1),
        "add_generation_prompt": (not continues,),
    }


def _equal(value: Any, other: Any) -> bool:
    if isinstance(value, float) and isinstance(other, float | int):
        return isclose(value, other, rel_tol=1e-6)
    return bool(value == other)


def _name(field: str) -> str:
    """A field's name as a header may contain it."""
    return re.sub(r"[^\w.-]", "?", field[:60], flags=re.ASCII)
