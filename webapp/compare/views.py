"""Pages of comparisons."""

import csv
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from training_core.errors import ConfigError
from webapp.agents.rewards import shaped_label
from webapp.common.attachments import attachment
from webapp.common.tones import role_tones
from webapp.compare.configs import configs_differ, sections_of
from webapp.compare.curves import curve_rows, curves_read
from webapp.compare.figures import figures_of
from webapp.compare.forms import KINDS, TOPS, choice_read
from webapp.compare.pages import Compared, compared, message_of, page_context
from webapp.compare.parallel import parallel_drawn
from webapp.compare.probes import plays_read
from webapp.compare.selection import MOST_GROUPED, configs_of, runs_chosen
from webapp.compare.selectors import runs_compare
from webapp.compare.table import table_read
from webapp.media.views import media_shown
from webapp.runs.models import ACTIVE_STATES
from webapp.runs.selectors import runs_visible
from webapp.shares.services import share_make, share_path
from webapp.transcripts.forms import Strips
from workers.http import cell_text


@require_GET
def compare_page(request: HttpRequest) -> HttpResponse:
    """Show curves and statistics of groups of runs, a panel for each metric."""
    selection = compared(request, MOST_GROUPED)
    context = page_context(request.user, selection, "curves")
    context["live"] = any(run.state in ACTIVE_STATES for run in selection.runs)
    context["panels"] = [_panel(selection, key) for key in selection.choice.keys] if selection.runs else []
    figures = [panel.get("figures", {}) for panel in context["panels"]]
    context["tops"] = TOPS if any(some.get("omitted") and some["ranked"] for some in figures) else []
    return render(request, "compare/page.html", context)


@require_GET
def curves_csv(request: HttpRequest) -> HttpResponse:
    """Return a chart's data: group, axis value, mean, bounds, number of runs."""
    selection = compared(request, MOST_GROUPED)
    if selection.wrong or not selection.runs:
        raise Http404(selection.wrong or "name runs")
    answer = HttpResponse(content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = attachment("compare.csv")
    curves = curves_read(selection.runs, selection.choice, selection.choice.keys[0])
    rows = [["group", selection.choice.x, "mean", "low", "high", "n"], *curve_rows(curves)]
    csv.writer(answer).writerows([cell_text(cell) for cell in row] for row in rows)
    return answer


@never_cache
@require_POST
def compare_share(request: HttpRequest) -> HttpResponse:
    """Create a read-only link to the comparison, shown only in the response to its own POST."""
    choice = choice_read(QueryDict(request.POST.get("query", "")))
    try:
        runs = runs_chosen(runs_visible(request.user), choice.run_ids, choice.filter)
        target = choice.query(runs=",".join(run.pk for run in runs), filter="")
        _, secret = share_make(request.user, runs[0].project, "comparison", target, title="Comparison")
    except ConfigError as error:
        return render(
            request, "compare/shared.html", {"place": "compare", "wrong": message_of(error)}, status=400
        )
    link = request.build_absolute_uri(share_path(secret))
    return render(
        request, "compare/shared.html", {"place": "compare", "link": link, "project": runs[0].project}
    )


@require_GET
def config_page(request: HttpRequest) -> HttpResponse:
    """Show the config fields in which the runs differ, by section; all fields on demand."""
    selection = compared(request)
    context = page_context(request.user, selection, "config")
    if selection.runs:
        try:
            difference = configs_differ(selection.runs, selection.choice.by, selection.choice.all)
            context |= {"difference": difference, "sections": sections_of(difference)}
        except ConfigError as error:
            context |= {"wrong": message_of(error)}
    return render(request, "compare/config.html", context)


@require_GET
def parallel_page(request: HttpRequest) -> HttpResponse:
    """Show a line per run over fields and metrics; brushes in the URL filter them."""
    selection = compared(request)
    context = page_context(request.user, selection, "parallel")
    if selection.runs:
        try:
            table = table_read(selection.runs, selection.choice)
            query = selection.choice.query(runs=",".join(table["kept"]), filter="", brush="")
            context |= {"table": table, "drawn": parallel_drawn(table), "only_kept": query}
        except ConfigError as error:
            context |= {"wrong": message_of(error)}
    return render(request, "compare/parallel.html", context)


@require_GET
def probes_page(request: HttpRequest) -> HttpResponse:
    """Show the episodes of each run on the same tasks."""
    selection, page = compared(request), Strips({"page": request.GET.get("page", "")}).values()[1]
    context = page_context(request.user, selection, "probes")
    if selection.runs:
        try:
            plays = plays_read(selection.runs, selection.choice, page)
            for task in plays["tasks"]:
                task["columns"] = list(zip(selection.runs, task["plays"], strict=True))
            context |= {
                "plays": plays,
                "tones": {
                    name: tone for run in selection.runs for name, tone in role_tones(run.config).items()
                },
                "kinds": KINDS,
                "number": page,
            }
        except ConfigError as error:
            context |= {"wrong": message_of(error)}
    return render(request, "compare/probes.html", context)


@require_GET
def media_page(request: HttpRequest) -> HttpResponse:
    """Show the media of the runs side by side at one step."""
    selection = compared(request)
    context = page_context(request.user, selection, "media")
    if selection.runs:
        context |= media_shown(selection.runs, request.GET) | {"kept": selection.choice.said()}
    if request.GET.get("part") == "values":
        return render(request, "media/_values.html", context)
    return render(request, "compare/media.html", context)


def _panel(selection: Compared, key: str) -> dict[str, Any]:
    """Return a metric's chart and statistics, or the error message."""
    panel: dict[str, Any] = {
        "key": key,
        "label": shaped_label(key, configs_of(selection.runs)),
        "source": f"{reverse('api:compare-curves')}?{selection.choice.query(key=key)}",
        "csv": f"{reverse('compare:csv')}?{selection.choice.query(key=key)}",
        "log": selection.choice.log,
    }
    try:
        return panel | {"figures": figures_of(runs_compare(selection.runs, selection.choice, key))}
    except ConfigError as error:
        return panel | {"wrong": message_of(error)}
