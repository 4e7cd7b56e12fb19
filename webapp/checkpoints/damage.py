"""Damaged checkpoints: detection on the web server, and rejection."""

from django.conf import settings

from webapp.checkpoints.models import Checkpoint
from webapp.runs.models import Run
from webapp.runs.states import TransitionRefused
from workers.storage.checkpoint_files import FilesGone, checkpoint_damage

LONGEST = 2000
"""Maximum stored characters of the error."""


class CheckpointGone(TransitionRefused):
    """The files of a checkpoint were deleted before this was reported: a new lookup finds another checkpoint."""


def damage_look(checkpoint: Checkpoint) -> str:
    """Return the damage of a checkpoint, empty if none is known, and store it in the row.

    If the run folder is on this machine, sizes are compared, and hashes too if the checkpoint is marked as damaged:
    restored files clear the mark. Otherwise the result is the driver's last report. Raises FilesGone.
    """
    folder = settings.TROUPE_HOME / "runs" / checkpoint.run_id
    damage = checkpoint_damage(folder, checkpoint.path, contents=bool(checkpoint.damaged))
    if damage is not None and damage != checkpoint.damaged:
        damage_note(checkpoint.run, checkpoint.path, damage)
        checkpoint.damaged = damage[:LONGEST]
    return checkpoint.damaged


def damage_note(run: Run, path: str, damage: str) -> None:
    """Mark a checkpoint as damaged, or (empty) as intact."""
    Checkpoint.objects.filter(run=run, path=path).update(damaged=damage[:LONGEST])


def require_whole(checkpoint: Checkpoint) -> None:
    """Raises TransitionRefused if a checkpoint was removed or is damaged."""
    if checkpoint.removed:
        raise CheckpointGone(f"{checkpoint_words(checkpoint)} was removed; choose another one")
    try:
        damage = damage_look(checkpoint)
    except FilesGone as error:
        raise CheckpointGone(str(error)) from error
    if damage:
        raise TransitionRefused(f"{checkpoint_words(checkpoint)} is damaged: {damage}; choose another one")


def checkpoint_words(checkpoint: Checkpoint) -> str:
    """Return the checkpoint's name in messages."""
    return f"the checkpoint of iteration {checkpoint.iteration} of run {checkpoint.run_id}"
