"""The roles' baselines in a checkpoint (algorithm.type = "rae")."""

import json
from collections.abc import Mapping
from pathlib import Path

from training_core.checkpoints import write_errors_explained
from training_core.errors import CheckpointError

FILE = "baselines.json"


def save_baselines(checkpoint: Path, baselines: Mapping[str, float]) -> None:
    """Write them (role -> baseline) into a checkpoint's draft. Raises CheckpointError."""
    with write_errors_explained(f"the checkpoint {checkpoint}"):
        (checkpoint / FILE).write_text(json.dumps(baselines))


def read_baselines(checkpoint: Path) -> dict[str, float]:
    """The stored baselines, bit for bit; empty if another algorithm wrote the checkpoint. Raises CheckpointError."""
    path = checkpoint / FILE
    if not path.is_file():
        return {}
    try:
        return {str(role): float(value) for role, value in json.loads(path.read_text()).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} is damaged: {error}; resume from another checkpoint") from error
