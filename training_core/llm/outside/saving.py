"""What a checkpoint keeps of rollouts from outside: which prompts are done."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILE = "rollout_buffer.json"


def save_outside(checkpoint: Path, state: Mapping[str, Any]) -> None:
    """Write it into a checkpoint's draft."""
    (checkpoint / FILE).write_text(json.dumps(state))


def read_outside(checkpoint: Path) -> dict[str, Any]:
    """What was written; nothing is done where the checkpoint has none, as one that another workflow made."""
    path = checkpoint / FILE
    state: dict[str, Any] = (
        json.loads(path.read_text()) if path.is_file() else {"finished": [], "delivery": 0}
    )
    return state
