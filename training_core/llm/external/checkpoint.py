"""The state of external rollouts in a checkpoint: which prompts are done."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from training_core.checkpoints import read_errors_explained, write_errors_explained

FILE = "rollout_buffer.json"


def save_external(checkpoint: Path, state: Mapping[str, Any]) -> None:
    """Write it into a checkpoint's draft. Raises CheckpointError."""
    with write_errors_explained(f"the checkpoint {checkpoint}"):
        (checkpoint / FILE).write_text(json.dumps(state))


def read_external(checkpoint: Path) -> dict[str, Any]:
    """The stored state; empty if the checkpoint has none, as one of another workflow.

    Raises CheckpointError.
    """
    path = checkpoint / FILE
    if not path.is_file():
        return {"finished": [], "delivery": 0}
    with read_errors_explained(checkpoint, "a rollout buffer's run"):
        state = json.loads(path.read_text())
        if not isinstance(state, dict):
            raise ValueError(f"{FILE} is not what Troupe writes")
        return state
