"""Reading checkpoints."""

from collections.abc import Collection, Iterable

from django.db.models import Q
from django.http import Http404

from training_core.errors import ConfigError
from webapp.accounts.permissions import Person
from webapp.checkpoints.models import Checkpoint
from webapp.runs.models import Attempt, Run
from webapp.runs.selectors import run_get, runs_visible

RIVALS = 50
FIGURES = ("eval/success", "eval/return", "eval_sampled/success", "train/return")


def checkpoints_list(run: Run) -> list[Checkpoint]:
    """Return the checkpoints newest first, including removed ones."""
    return list(Checkpoint.objects.filter(run=run).order_by("-iteration", "-pk"))


def checkpoint_figures(checkpoints: Iterable[Checkpoint], best_of: str) -> list[str]:
    """Return the metrics of a table: the one that selects the best, then those of FIGURES that some checkpoint has."""
    reported = {key for row in checkpoints for key in row.metrics}
    return [best_of, *(key for key in FIGURES if key in reported and key != best_of)]


def checkpoint_latest(run: Run, without: Collection[int] = ()) -> Checkpoint | None:
    """Return the checkpoint to resume from: the newest that is not damaged, and not one of `without` (primary keys).

    If an attempt resumed from an earlier one, later checkpoints of the attempts before it are ignored.
    """
    there = Checkpoint.objects.filter(run=run, removed=False, damaged="").exclude(pk__in=without)
    resumed = run.attempts.exclude(resumed_from="").order_by("-number").first()
    if resumed is not None:
        before = Q(iteration__lte=resumed.resumed_iteration)
        there = there.filter(Q(attempt__gte=resumed.number) | before)
    return there.order_by("-iteration", "-pk").first()


def checkpoint_to_resume(checkpoints: Iterable[Checkpoint], attempts: Iterable[Attempt]) -> Checkpoint | None:
    """Return `checkpoint_latest` of checkpoints, newest first, and attempts that are already read."""
    resumed = max((row for row in attempts if row.resumed_from), key=lambda row: row.number, default=None)
    for row in checkpoints:
        follows = resumed is None or row.attempt >= resumed.number
        before = resumed is not None and row.iteration <= resumed.resumed_iteration
        if not (row.removed or row.damaged) and (follows or before):
            return row
    return None


def checkpoint_rivals(user: Person) -> list[Run]:
    """Return the latest runs with a checkpoint, as opponents for another run."""
    there = Checkpoint.objects.filter(removed=False, damaged="").values("run")
    return list(runs_visible(user).filter(pk__in=there).order_by("-created_at")[:RIVALS])


def checkpoint_get(user: Person, pk: int) -> Checkpoint:
    """Return a checkpoint by its primary key. Raises Http404, also for projects that are not visible to the user."""
    checkpoint = (
        Checkpoint.objects.filter(pk=pk, run__in=runs_visible(user))
        .select_related("run__project")
        .defer("run__facts")
        .first()
    )
    if checkpoint is None:
        raise Http404("there is no such checkpoint that is visible to you")
    return checkpoint


def checkpoint_named(user: Person, run_id: str, name: str, without: Collection[int] = ()) -> Checkpoint:
    """Return a checkpoint of a run: `last`, `best`, an iteration (20) or a folder (iteration-000020). Raises Http404, ConfigError.

    `last` is the one to resume from, except those in `without`.
    """
    run = run_get(user, run_id)
    there = (
        Checkpoint.objects.filter(run=run)
        .select_related("run__project")
        .defer("run__facts")
        .order_by("removed", "-iteration", "-pk")
    )
    number = name.removeprefix("iteration-")
    if name == "last":
        checkpoint = checkpoint_latest(run, without)
    elif name == "best":
        checkpoint = there.filter(removed=False, best=True).first()
    elif number.isascii() and number.isdigit() and len(number) <= 12:
        checkpoint = there.filter(iteration=min(int(number), 2**31 - 1)).first()
    else:
        raise ConfigError(
            {"checkpoint": f"{name[:40]!r} is not a checkpoint; use last, best or an iteration"}
        )
    if checkpoint is None:
        raise Http404(f"run {run.pk} has no checkpoint {name}")
    return checkpoint
