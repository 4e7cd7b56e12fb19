"""Errors on reading or writing a policy's part of a checkpoint, for all kinds of agents."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from training_core.errors import CheckpointError, TroupeError


@contextmanager
def read_errors_explained(folder: Path, fits: str) -> Iterator[None]:
    """Convert errors in the block to CheckpointError with a remedy; `fits` names what the files have to fit."""
    try:
        yield
    except FileNotFoundError as error:
        raise CheckpointError(
            f"the checkpoint {folder} is not complete ({error.filename} is missing); resume from another checkpoint"
        ) from error
    except (OSError, KeyError, TypeError, ValueError, RuntimeError, SafetensorError) as error:
        raise CheckpointError(
            f"the checkpoint {folder} does not fit {fits}, or is damaged: {error}; resume with the config that it "
            "was written with, or from another checkpoint"
        ) from error


@contextmanager
def write_errors_explained(what: str, raised: type[TroupeError] = CheckpointError) -> Iterator[None]:
    """Convert disk errors in the block to `raised`; `what` names what is written.

    safetensors raises its own class for a full disk, and tokenizers a plain Exception whose text ends in "(os error
    28)".
    """
    try:
        yield
    except TroupeError:
        raise
    except Exception as error:
        if not isinstance(error, OSError | SafetensorError) and "(os error " not in str(error):
            raise
        raise raised(f"cannot write {what}: {error}; is the disk full?") from error
