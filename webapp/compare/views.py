"""Pages of comparisons."""

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from training_core.errors import ConfigError
from webapp.common.tones import role_tones
from webapp.compare.configs import configs_differ, sections_of
from webapp.compare.figures import figures_of
from webapp.compare.forms import KINDS
from webapp.compare.pages import Compared, compared, page_context, told
from webapp.compare.parallel import parallel_drawn
from webapp.compare.probes import plays_read
from webapp.compare.selectors import runs_compare
from webapp.compare.table import table_read
from webapp.transcripts.forms import Strips


@login_required
@require_GET
def compare_page(request: HttpRequest) -> HttpResponse:
    """Curves and figures of groups of runs, a panel for each metric."""
    found = compared(request)
    context = page_context(request.user, found, "curves")
    context["panels"] = [_panel(found, key) for key in found.choice.keys] if found.runs else []
    return render(request, "compare/page.html", context)


@login_required
@require_GET
def config_page(request: HttpRequest) -> HttpResponse:
    """Fields of the config in which the runs differ, by section; all of them on demand."""
    found = compared(request)
    context = page_context(request.user, found, "config")
    if found.runs:
        try:
            difference = configs_differ(found.runs, found.choice.by, found.choice.all)
            context |= {"difference": difference, "sections": sections_of(difference)}
        except ConfigError as error:
            context |= {"wrong": told(error)}
    return render(request, "compare/config.html", context)


@login_required
@require_GET
def parallel_page(request: HttpRequest) -> HttpResponse:
    """A line per run over fields and metrics; brushes in the address keep some of them."""
    found = compared(request)
    context = page_context(request.user, found, "parallel")
    if found.runs:
        try:
            table = table_read(found.runs, found.choice)
            kept = found.choice.query(runs=",".join(table["kept"]), filter="", brush="")
            context |= {"table": table, "drawn": parallel_drawn(table), "only_kept": kept}
        except ConfigError as error:
            context |= {"wrong": told(error)}
    return render(request, "compare/parallel.html", context)


@login_required
@require_GET
def probes_page(request: HttpRequest) -> HttpResponse:
    """The same tasks as each run played them."""
    found, page = compared(request), Strips({"page": request.GET.get("page", "")}).values()[1]
    context = page_context(request.user, found, "probes")
    if found.runs:
        try:
            plays = plays_read(found.runs, found.choice, page)
            for task in plays["tasks"]:
                task["columns"] = list(zip(found.runs, task["plays"], strict=True))
            context |= {
                "plays": plays,
                "tones": {name: tone for run in found.runs for name, tone in role_tones(run.config).items()},
                "kinds": KINDS,
                "number": page,
            }
        except ConfigError as error:
            context |= {"wrong": told(error)}
    return render(request, "compare/probes.html", context)


def _panel(found: Compared, key: str) -> dict[str, Any]:
    """A metric's chart and its figures, or why there are none."""
    panel: dict[str, Any] = {
        "key": key,
        "source": f"{reverse('api:compare-curves')}?{found.choice.query(key=key)}",
        "log": found.choice.log,
    }
    try:
        return panel | {"figures": figures_of(runs_compare(found.runs, found.choice, key))}
    except ConfigError as error:
        return panel | {"wrong": told(error)}
