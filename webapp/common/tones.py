"""One colour per role: tones 1 to 6 of static/css/tokens.css, by the role's index in the team."""

from collections.abc import Mapping
from typing import Any

TONES = 6
RUN_TONES = 12
"""Number of colours of runs: --r1 to --r12 of static/css/tokens.css."""
SHARED = 0
"""The tone of a policy of several roles, and of anything without a role."""


def run_tone(tone: int) -> str:
    """Return the name of a run's colour (`Run.tone`) as `data-tone` has it."""
    return f"r{tone or 1}"


def role_tones(config: Mapping[str, Any]) -> dict[str, int]:
    """Return role name -> tone, in the order of turns."""
    team = config.get("team", {})
    names = dict.fromkeys([*team.get("turn_order", ()), *team.get("roles", {})])
    return {name: index % TONES + 1 for index, name in enumerate(names)}


def policy_tones(config: Mapping[str, Any]) -> dict[str, int]:
    """Return policy name -> the tone of its only role, else SHARED."""
    tones = role_tones(config)
    behind: dict[str, list[str]] = {}
    for role, facts in config.get("team", {}).get("roles", {}).items():
        behind.setdefault(facts["policy"], []).append(role)
    return {policy: tones[roles[0]] if len(roles) == 1 else SHARED for policy, roles in behind.items()}
