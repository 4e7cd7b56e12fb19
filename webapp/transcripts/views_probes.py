"""Pages of probes: strips over training, and the differences between two episodes."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from webapp.common.tones import role_tones
from webapp.runs.frame import run_context
from webapp.runs.selectors import run_get
from webapp.transcripts.forms import KINDS, Against, Strips
from webapp.transcripts.probes import difference, plays_of, strips_read
from webapp.transcripts.quarters import quarters_read
from webapp.transcripts.selectors import episode_get


@require_GET
def probes_page(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show a strip per task with the responses at every evaluation."""
    run = run_get(request.user, run_id)
    kind, page, task = Strips(request.GET).values()
    strips, more = strips_read(run, kind, page, task)
    context = run_context(request.user, run, "transcripts") | {
        "strips": strips,
        "quarters": quarters_read(run),
        "kind": kind,
        "kinds": KINDS[1:],
        "task": task,
        "tones": role_tones(run.config),
        "next": page + 1 if more else None,
        "before": page - 1 if page else None,
    }
    return render(request, "transcripts/probes.html", context)


@require_GET
def difference_page(request: HttpRequest, run_id: str, pk: int) -> HttpResponse:
    """Show the differences between this episode and `other`."""
    one = episode_get(request.user, pk)
    if one.run_id != run_id:
        raise Http404
    form = Against(request.GET)
    other = episode_get(request.user, form.cleaned_data["other"]) if form.is_valid() else one
    one, other = sorted((one, other), key=lambda episode: (episode.iteration, episode.pk))
    context = run_context(request.user, one.run, "transcripts") | {
        "one": one,
        "other": other,
        "plays": plays_of(one),
        "sides": [
            {"label": "Earlier", "shown": one, "fixed": other},
            {"label": "Later", "shown": other, "fixed": one},
        ],
        "turns": difference(one, other),
        "tones": role_tones(one.run.config),
    }
    return render(request, "transcripts/diff.html", context)
