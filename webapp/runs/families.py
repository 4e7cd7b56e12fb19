"""Runs that differ by their seed alone: one family."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

ASIDE = ("seed", "name", "description", "tags")
"""Fields below `run` that do not make another experiment of it."""


def family_of(config: Mapping[str, Any]) -> str:
    """The same for configs that are equal but for ASIDE; 16 hexadecimal digits."""
    said = config.get("run")
    run = (
        {key: value for key, value in said.items() if key not in ASIDE} if isinstance(said, Mapping) else said
    )
    text = json.dumps({**config, "run": run}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
