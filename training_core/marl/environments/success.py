"""Success of episodes, as reported in environments' infos."""

from collections.abc import Mapping
from typing import Any

SUCCESS = ("success", "is_success")
"""Keys that environments use; the second is used by gymnasium-robotics and Stable-Baselines3."""


def reported_success(info: Any) -> bool | None:
    """The success in an info; None if it has none."""
    if isinstance(info, Mapping):
        for key in SUCCESS:
            if info.get(key) is not None:
                return bool(info[key])
    return None
