"""Checkpoints whose files are not as they were written: what the web side sees of them, and who refuses them."""

from django.conf import settings

from webapp.checkpoints.models import Checkpoint
from webapp.runs.models import Run
from webapp.runs.states import TransitionRefused
from workers.storage.checkpoint_files import FilesGone, checkpoint_damage

LONGEST = 2000
"""Characters that are kept of what is wrong."""


class CheckpointGone(TransitionRefused):
    """The files of a checkpoint were deleted, though nobody has told yet: another lookup finds another one."""


def damage_look(checkpoint: Checkpoint) -> str:
    """What is wrong with a checkpoint; empty where nothing is known to be. Keeps it in the row.

    Where the run folder is on this machine, sizes are compared, and hashes too if the checkpoint is marked as damaged:
    files that were restored end the mark. Elsewhere it is what a driver has reported. Raises FilesGone.
    """
    folder = settings.TROUPE_HOME / "runs" / checkpoint.run_id
    found = checkpoint_damage(folder, checkpoint.path, contents=bool(checkpoint.damaged))
    if found is not None and found != checkpoint.damaged:
        damage_note(checkpoint.run, checkpoint.path, found)
        checkpoint.damaged = found[:LONGEST]
    return checkpoint.damaged


def damage_note(run: Run, path: str, found: str) -> None:
    """Mark a checkpoint as damaged, or (empty) as whole again."""
    Checkpoint.objects.filter(run=run, path=path).update(damaged=found[:LONGEST])


def require_whole(checkpoint: Checkpoint) -> None:
    """Raises TransitionRefused where a checkpoint was removed or is damaged."""
    if checkpoint.removed:
        raise CheckpointGone(f"{checkpoint_words(checkpoint)} was removed; take another one")
    try:
        found = damage_look(checkpoint)
    except FilesGone as error:
        raise CheckpointGone(str(error)) from error
    if found:
        raise TransitionRefused(f"{checkpoint_words(checkpoint)} is damaged: {found}; take another one")


def checkpoint_words(checkpoint: Checkpoint) -> str:
    """How messages name it."""
    return f"the checkpoint of iteration {checkpoint.iteration} of run {checkpoint.run_id}"
