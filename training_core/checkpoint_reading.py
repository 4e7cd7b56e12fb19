"""What goes wrong when a policy's part of a checkpoint is read, whatever kind of agents it is of."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from training_core.errors import CheckpointError


@contextmanager
def explained(folder: Path, fits: str) -> Iterator[None]:
    """Errors within as CheckpointError, which says what to do; `fits` is what the files have to fit."""
    try:
        yield
    except FileNotFoundError as error:
        raise CheckpointError(
            f"the checkpoint {folder} is not complete ({error.filename} is missing); resume from another one"
        ) from error
    except (OSError, KeyError, TypeError, ValueError, RuntimeError, SafetensorError) as error:
        raise CheckpointError(
            f"the checkpoint {folder} does not fit {fits}, or is torn: {error}; "
            "resume with the config that it was written under, or from another checkpoint"
        ) from error
