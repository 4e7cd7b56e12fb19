"""The checkpoints tab of a run, and its actions."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_POST

from training_core.errors import TroupeError
from webapp.checkpoints.drawing import lineage_drawing
from webapp.checkpoints.forms import PruneForm
from webapp.checkpoints.lineage import lineage_shown
from webapp.checkpoints.models import Checkpoint
from webapp.checkpoints.retention import checkpoint_do, checkpoints_prune
from webapp.checkpoints.selectors import checkpoint_figures, checkpoint_rivals, checkpoint_to_resume
from webapp.common.formats import size
from webapp.jobs.services import jobs_visible
from webapp.run_pages.context import checkpoint_context
from webapp.runs.frame import is_resumable, run_context
from webapp.runs.selectors import attempts_of, run_get

JOBS = 20
"""Number of listed short jobs of the run."""


@require_GET
def checkpoints_page(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show all checkpoints, including removed ones, and the lineage of the run."""
    run = run_get(request.user, run_id)
    context = run_context(request.user, run, "checkpoints") | checkpoint_context(run)
    there = [row for row in context["checkpoints"] if not row.removed]
    tree, wanted = lineage_shown(request.user, run), request.GET.get("checkpoint", "")
    context |= {
        "drawing": lineage_drawing(tree) if tree else None,
        "last": checkpoint_to_resume(context["checkpoints"], attempts_of(run)),
        "forked": set(run.forks.values_list("parent_checkpoint", flat=True)),
        "there": len(there),
        "bytes": sum(row.size for row in there),
        "figures": checkpoint_figures(there, context["best_of"]),
        "chosen": next((row for row in there if str(row.iteration) == wanted), None),
        "jobs": jobs_visible(request.user).filter(run=run)[:JOBS],
        "rivals": checkpoint_rivals(request.user),
        "resumable": is_resumable(run),
        "several": len({role["policy"] for role in run.config["team"]["roles"].values()}) > 1,
    }
    return render(request, "checkpoints/page.html", context)


@require_POST
def checkpoint_act(request: HttpRequest, run_id: str, pk: int, act: str) -> HttpResponse:
    """Pin, unpin or delete."""
    run = run_get(request.user, run_id)
    checkpoint = get_object_or_404(Checkpoint.objects.select_related("run__project"), run=run, pk=pk)
    try:
        checkpoint_do(request.user, checkpoint, act)
    except TroupeError as error:
        messages.error(request, str(error))
    return redirect("runs:checkpoints", run.pk)


@require_POST
def checkpoints_prune_act(request: HttpRequest, run_id: str) -> HttpResponse:
    """Delete all but the newest and the best checkpoints."""
    run = run_get(request.user, run_id)
    form = PruneForm(request.POST)
    if not form.is_valid():
        messages.error(
            request, "; ".join(f"{name}: {message.as_text()}" for name, message in form.errors.items())
        )
        return redirect("runs:checkpoints", run.pk)
    try:
        done = checkpoints_prune(request.user, run, form.cleaned_data["last"], form.cleaned_data["best"])
    except TroupeError as error:
        messages.error(request, str(error))
    else:
        listed = ", ".join(str(iteration) for iteration in done["deleted"])
        message = f"Deleted {listed}: {size(done['bytes'])}." if listed else "Nothing to delete."
        messages.success(request, message)
    return redirect("runs:checkpoints", run.pk)
