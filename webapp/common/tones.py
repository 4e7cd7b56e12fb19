"""One colour per role, everywhere: tones 1 to 6 of static/css/tokens.css, by the role's place in the team."""

from collections.abc import Mapping
from typing import Any

TONES = 6
SHARED = 0
"""The tone of a policy behind several roles, and of anything that is no role's."""


def role_tones(config: Mapping[str, Any]) -> dict[str, int]:
    """Role name -> tone, in the order in which they speak."""
    team = config.get("team", {})
    names = dict.fromkeys([*team.get("turn_order", ()), *team.get("roles", {})])
    return {name: index % TONES + 1 for index, name in enumerate(names)}


def policy_tones(config: Mapping[str, Any]) -> dict[str, int]:
    """Policy name -> the tone of the one role that it speaks for, else SHARED."""
    tones = role_tones(config)
    behind: dict[str, list[str]] = {}
    for role, facts in config.get("team", {}).get("roles", {}).items():
        behind.setdefault(facts["policy"], []).append(role)
    return {policy: tones[roles[0]] if len(roles) == 1 else SHARED for policy, roles in behind.items()}
