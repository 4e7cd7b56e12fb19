"""Families: runs that differ only by seed."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

ASIDE = ("seed", "name", "description", "tags")
"""Fields below `run` that do not distinguish experiments."""


def family_of(config: Mapping[str, Any]) -> str:
    """Return 16 hexadecimal digits, equal for configs that differ only in ASIDE."""
    said = config.get("run")
    run = (
        {key: value for key, value in said.items() if key not in ASIDE} if isinstance(said, Mapping) else said
    )
    text = json.dumps({**config, "run": run}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
