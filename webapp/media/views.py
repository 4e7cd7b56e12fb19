"""The media page of a run, and what it shares with the comparison of runs."""

import re
from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_GET

from webapp.media.services import names_of, steps_of, values_at, values_of
from webapp.runs.frame import run_context
from webapp.runs.models import Run
from webapp.runs.selectors import run_get

MOST_NAMES = 60
"""Names on a page; a search finds the others."""


def media_shown(runs: Sequence[Run], asked: QueryDict) -> dict[str, Any]:
    """Return the context of media side by side: for each name the values of each run at `step`, or at the last step without a valid one."""
    words, wanted = asked.get("q", "").replace("\0", ""), asked.get("step", "")
    step = int(wanted) if re.fullmatch(r"-?\d{1,18}", wanted) else None
    rows = values_of(*runs)
    named = names_of(rows, words)
    names = list({(name.name, name.kind): name for run in runs for name in named.get(run.pk, [])}.values())
    steps = steps_of(rows) if names else []
    values = values_at(rows, [name.name for name in names[:MOST_NAMES]], step)
    logged = {(run, name.name, name.kind) for run, some in named.items() for name in some}
    return {
        "media": [
            {
                "name": name,
                "columns": [
                    (run, key in logged, values.get(key, []))
                    for run in runs
                    for key in [(run.pk, name.name, name.kind)]
                ],
            }
            for name in names[:MOST_NAMES]
        ],
        "more_names": max(0, len(names) - MOST_NAMES),
        "steps": steps,
        "at": sum(known <= step for known in steps) - 1 if step is not None else len(steps) - 1,
        "step": step if step is not None else (steps[-1] if steps else 0),
        "q": words,
    }


@require_GET
def media_page(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show the media of a run at one step; with `part` only the values, which the page's script reads for another step."""
    run = run_get(request.user, run_id)
    context = media_shown([run], request.GET) | {"run": run}
    if request.GET.get("part") == "values":
        return render(request, "media/_values.html", context)
    return render(request, "media/page.html", run_context(request.user, run, "media") | context)
