"""Families: runs that differ only by seed."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

ASIDE = ("seed", "name", "description", "tags")
"""Fields below `run` that do not distinguish experiments."""


def family_of(config: Mapping[str, Any]) -> str:
    """Return 16 hexadecimal digits, equal for configs that differ only in ASIDE."""
    run_section = config.get("run")
    run = (
        {key: value for key, value in run_section.items() if key not in ASIDE}
        if isinstance(run_section, Mapping)
        else run_section
    )
    text = json.dumps({**config, "run": run}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
