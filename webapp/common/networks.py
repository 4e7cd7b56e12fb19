"""Which runs are of small networks: they act in steps and have no tokens."""

from collections.abc import Mapping
from typing import Any


def has_networks(config: Mapping[str, Any]) -> bool:
    """Whether the policies of a config, or of what is typed of one, are small networks."""
    policies = config.get("policies") or {}
    return any("network" in policy for policy in policies.values() if isinstance(policy, Mapping))
