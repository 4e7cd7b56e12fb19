"""Reading checkpoints."""

from collections.abc import Iterable

from django.http import Http404

from training_core.errors import ConfigError
from webapp.accounts.permissions import Person
from webapp.checkpoints.models import Checkpoint
from webapp.runs.models import Run
from webapp.runs.selectors import run_get, runs_visible

RIVALS = 50
FIGURES = ("eval/success", "eval/return", "eval_sampled/success", "train/return")


def checkpoints_list(run: Run) -> list[Checkpoint]:
    """Newest first, the removed ones too."""
    return list(Checkpoint.objects.filter(run=run).order_by("-iteration", "-pk"))


def checkpoint_figures(checkpoints: Iterable[Checkpoint], best_of: str) -> list[str]:
    """Metrics that a table shows: the one that makes the best, then those of FIGURES that some checkpoint has."""
    known = {key for row in checkpoints for key in row.metrics}
    return [best_of, *(key for key in FIGURES if key in known and key != best_of)]


def checkpoint_latest(run: Run) -> Checkpoint | None:
    """The one to resume from."""
    return Checkpoint.objects.filter(run=run, removed=False).order_by("-iteration", "-pk").first()


def checkpoint_rivals(user: Person) -> list[Run]:
    """The latest runs with a checkpoint that another could meet."""
    there = Checkpoint.objects.filter(removed=False).values("run")
    return list(runs_visible(user).filter(pk__in=there).order_by("-created_at")[:RIVALS])


def checkpoint_get(user: Person, pk: int) -> Checkpoint:
    """One by its number. Raises Http404 for those of other people's projects too."""
    found = (
        Checkpoint.objects.filter(pk=pk, run__in=runs_visible(user)).select_related("run__project").first()
    )
    if found is None:
        raise Http404("there is no such checkpoint that you may see")
    return found


def checkpoint_named(user: Person, run_id: str, name: str) -> Checkpoint:
    """One of a run: `last`, `best`, an iteration (20) or a folder (iteration-000020). Raises Http404, ConfigError."""
    run = run_get(user, run_id)
    there = (
        Checkpoint.objects.filter(run=run)
        .select_related("run__project")
        .order_by("removed", "-iteration", "-pk")
    )
    number = name.removeprefix("iteration-")
    if name == "last":
        found = there.filter(removed=False).first()
    elif name == "best":
        found = there.filter(removed=False, best=True).first()
    elif number.isascii() and number.isdigit() and len(number) <= 12:
        found = there.filter(iteration=min(int(number), 2**31 - 1)).first()
    else:
        raise ConfigError(
            {"checkpoint": f"{name[:40]!r} names no checkpoint; give last, best or an iteration"}
        )
    if found is None:
        raise Http404(f"run {run.pk} has no checkpoint {name}")
    return found
