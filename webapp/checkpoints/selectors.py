"""Reading checkpoints."""

from webapp.checkpoints.models import Checkpoint
from webapp.runs.models import Run


def checkpoints_list(run: Run) -> list[Checkpoint]:
    """Newest first, the removed ones too."""
    return list(Checkpoint.objects.filter(run=run).order_by("-iteration", "-pk"))


def checkpoint_latest(run: Run) -> Checkpoint | None:
    """The one to resume from."""
    return Checkpoint.objects.filter(run=run, removed=False).order_by("-iteration", "-pk").first()
