"""The message of a run with a pending stop or pause: what it waits for, and the work lost by ending it now."""

from django.utils import timezone

from webapp.checkpoints.services import checkpoint_latest
from webapp.metrics.models import Series
from webapp.runs.models import Attempt, Run
from workers.launchers.launcher import STOP_SECONDS

ENDING = f"Ending now: the driver writes a checkpoint of the last completed iteration, and is killed after {STOP_SECONDS} s at the latest"
ENDING_MEMBER = "Ending now: its process trains other runs, so this run ends with the current iteration"
DOING = {"stop": "Stopping", "pause": "Pausing"}


def stopping_words(run: Run, attempt: Attempt | None) -> str:
    """Return e.g. "Pausing: completing iteration 2 (the last one took 105 s); requested 40 s ago; saved up to iteration 1"."""
    doing = DOING.get(run.stop_requested, "Stopping")
    asked = (timezone.now() - run.stop_requested_at).total_seconds() if run.stop_requested_at else 0.0
    if attempt is None or attempt.started_at is None:
        return f"{doing}: the workers are still starting; requested {spelled(asked)} ago"
    return f"{doing}: {_under_way(run)}; requested {spelled(asked)} ago; {saved_words(run)}"


def _under_way(run: Run) -> str:
    if run.iterations and run.iteration >= run.iterations:
        return "completing the last evaluation and checkpoint"
    took = Series.objects.filter(run=run, key="time/iteration").values_list("last_value", flat=True).first()
    usual = f" (the last one took {spelled(took)})" if took and took > 0 else ""
    return f"completing iteration {run.iteration + 1}{usual}"


def saved_words(run: Run) -> str:
    """Return the iteration from which the run can be resumed."""
    latest = checkpoint_latest(run)
    return f"saved up to iteration {latest.iteration}" if latest else "no checkpoint has been written"


def spelled(seconds: float) -> str:
    """Return a readable duration: "0 s", "40 s", "12 min", "3.5 h"."""
    if seconds < 10:
        return f"{round(seconds)} s"
    if seconds < 600:
        return f"{round(seconds / 5) * 5} s"
    return f"{round(seconds / 60)} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
