"""Environments of users that cannot be constructed: what checks and runs state of each."""

from pathlib import Path
from typing import Any

OWN = "tests.workers.driver.own"
WRONG_ENVIRONMENTS: list[tuple[str, dict[str, Any], str, str]] = [
    (f"{OWN}:Nobody", {}, "has no 'Nobody'", "Correct this field"),
    (f"{OWN}:Say", {"boats": 4}, "unexpected keyword argument 'boats'", "Correct this field"),
    ("nobody.worlds:World", {}, "there is no module 'nobody'", "Install the package on the machine"),
]
"""path, arguments, part of the cause, beginning of the remedy."""


def tree_with(path: str, args: dict[str, Any], model: Path, **role: Any) -> dict[str, Any]:
    """Return a config with this environment and one role, `speaker`, with further fields."""
    return {
        "team": {"roles": {"speaker": {"policy": "p", **role}}},
        "policies": {"p": {"model": str(model)}},
        "environment": {"type": "custom", "path": path, "args": args},
    }
