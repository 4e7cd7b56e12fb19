"""Whether an episode succeeded, as environments say it in their infos."""

from collections.abc import Mapping
from typing import Any

SUCCESS = ("success", "is_success")
"""Keys that environments use; the second is that of gymnasium-robotics and Stable-Baselines3."""


def success_in(info: Any) -> bool | None:
    """What an info says; None where it does not say."""
    if isinstance(info, Mapping):
        for key in SUCCESS:
            if info.get(key) is not None:
                return bool(info[key])
    return None
