"""Pages of transcripts: the stream, and one episode turn by turn."""

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from webapp.common.tones import role_tones
from webapp.runs.pages import run_context
from webapp.runs.selectors import run_get
from webapp.transcripts.forms import EpisodeFilters, Place
from webapp.transcripts.listing import PER_PAGE, stream_read
from webapp.transcripts.pages import filters_context, neighbours, replay_data, same_task, turns_shown
from webapp.transcripts.selectors import episode_document, episode_get


@login_required
@require_GET
def episodes_page(request: HttpRequest, run_id: str) -> HttpResponse:
    """The run's episodes, newest first, filtered as the address says; `part=rows` gives rows alone."""
    run = run_get(request.user, run_id)
    filters = EpisodeFilters(request.GET).values()
    before, after = Place(request.GET).values()
    found = stream_read(run, filters, before, after)
    if request.GET.get("part") == "rows":
        return render(request, "transcripts/_rows.html", {"run": run, "episodes": found.episodes})
    context = run_context(request.user, run, "transcripts") | {
        **filters_context(run, filters),
        "episodes": found.episodes,
        "older": found.older,
        "paused": before is not None,
        "most": PER_PAGE,
    }
    return render(request, "transcripts/list.html", context)


@login_required
@require_GET
def episode_page(request: HttpRequest, run_id: str, pk: int) -> HttpResponse:
    """One episode: what each agent saw, said and got, the board, the tokens."""
    episode = episode_get(request.user, pk)
    if episode.run_id != run_id:
        raise Http404
    document = episode_document(episode)
    older, newer = neighbours(episode)
    context = run_context(request.user, episode.run, "transcripts", replay=replay_data(document)) | {
        "episode": episode,
        "turns": turns_shown(episode.run, document),
        "body": bool(document.get("turns")),
        "tones": role_tones(episode.run.config),
        "seconds": episode.ended - episode.started,
        "same_task": same_task(episode),
        "older": older,
        "newer": newer,
    }
    return render(request, "transcripts/detail.html", context)
