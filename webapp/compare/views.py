"""Pages of comparisons."""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from training_core.errors import ConfigError
from webapp.accounts.permissions import Person
from webapp.agents.registry import with_tokens
from webapp.agents.rewards import shaped_label
from webapp.api.routes import lenient
from webapp.common.attachments import attachment
from webapp.common.tones import role_tones, run_tone
from webapp.compare.choice import (
    BANDS,
    KINDS,
    MOST_GROUPED,
    MOST_RUNS,
    TOPS,
    Choice,
    choice_read,
    configs_of,
    groups_make,
    meant,
    runs_chosen,
)
from webapp.compare.curves import curve_rows, curves_read
from webapp.compare.drawing import parallel_drawn
from webapp.compare.probes import plays_read
from webapp.compare.statistics import figures_of, runs_compare
from webapp.compare.table import configs_differ, sections_of, table_read
from webapp.media.views import media_shown
from webapp.metrics.models import Series
from webapp.metrics.panels import AXES
from webapp.run_table.filters import runs_list
from webapp.runs.configs import groupings
from webapp.runs.models import ACTIVE_STATES, Run
from webapp.runs.selectors import runs_visible
from webapp.shares.services import share_link, share_make
from webapp.transcripts.episode_views import Strips
from workers.http import cell_text

TABS = (
    ("curves", "Curves and figures", "compare:page"),
    ("config", "Config", "compare:config"),
    ("parallel", "Parallel coordinates", "compare:parallel"),
    ("probes", "Same tasks", "compare:probes"),
    ("media", "Media", "compare:media"),
)
CONTROLS = {
    "curves": {"runs", "filter", "key", "by", "x", "band", "smooth", "log", "at", "top"},
    "config": {"runs", "filter", "by", "all"},
    "parallel": {"runs", "filter", "by", "axes", "key", "brush"},
    "probes": {"runs", "filter", "kind", "at", "task"},
    "media": {"runs", "filter"},
}
"""Form controls of each page; the other parameters are hidden fields."""
CHIPS = 40
"""Maximum number of runs listed by name above the page; for more, only their number is shown."""
LATEST = 12
BRACKETS = re.compile(r"[\[\]\\]")
"""Characters of a name that would end a Markdown link."""
TITLE = 120
"""Maximum length of a report's suggested title."""


@dataclass(frozen=True)
class Compared:
    """The runs of a page, or the error message if there are none."""

    choice: Choice
    runs: list[Run]
    wrong: str


def compared(request: HttpRequest, most: int = MOST_RUNS) -> Compared:
    """Return at most `most` runs, and the options of the URL. Raises Http404 for runs not visible to the reader."""
    choice = choice_read(request.GET)
    if not (choice.run_ids or choice.filter):
        return Compared(choice, [], "")
    try:
        runs = runs_chosen(runs_visible(request.user), choice.run_ids, choice.filter, choice.by, most)
        return Compared(meant(choice, runs), runs, "")
    except ConfigError as error:
        return Compared(choice, [], message_of(error))


def message_of(error: ConfigError) -> str:
    """Return the error message without the names of fields."""
    return "; ".join(error.fields.values())


def page_context(user: Person, selection: Compared, tab: str) -> dict[str, Any]:
    """Return the context shared by all comparison pages."""
    choice = selection.choice
    return {
        "place": "compare",
        "choice": choice,
        "runs": selection.runs,
        "wrong": selection.wrong,
        "chips": _chips(selection) if len(selection.runs) <= CHIPS else [],
        "tab": tab,
        "carried": {name: value for name, value in choice.said().items() if name not in CONTROLS[tab]},
        "tabs": [
            {"name": name, "label": label, "url": f"{reverse(url)}?{choice.query()}"}
            for name, label, url in TABS
            if name == tab or name != "media" or any(run.media_count for run in selection.runs)
        ],
        "groupings": groupings(configs_of(selection.runs), choice.by),
        "axes": _axes(selection),
        "bands": BANDS,
        "report": {"title": _report_title(selection.runs), "text": _report_text(choice, selection.runs)},
        "known_keys": _keys(selection.runs),
        "latest": [] if selection.runs else runs_list(user)[:LATEST],
    }


def _axes(selection: Compared) -> list[tuple[str, str]]:
    """Return (value, label) of the horizontal axes: without tokens if no run has them, with the selected one."""
    tokens = with_tokens(configs_of(selection.runs))
    axes = [(name, label) for name, label in AXES.items() if tokens or name != "tokens"]
    chosen = selection.choice.x
    return axes if chosen in dict(axes) else [*axes, (chosen, chosen)]


def _report_title(runs: list[Run]) -> str:
    names = list(dict.fromkeys(run.name for run in runs))
    rest = f" and {len(names) - 2} more" if len(names) > 3 else ""
    return ("Comparison of " + " and ".join(names[: 2 if rest else 3]) + rest)[:TITLE]


def _report_text(choice: Choice, runs: list[Run]) -> str:
    """Return the first text of a report on this comparison: places to write, links to the runs, its charts and figures."""
    address = f"{reverse('compare:page')}?"
    names = {run: BRACKETS.sub(r"\\\g<0>", run.name) for run in runs[:CHIPS]}
    links = ", ".join(f"[{name}]({reverse('runs:detail', args=[run.pk])})" for run, name in names.items())
    parts = ["*Write here which question the comparison answers.*", f"Runs: {links}."]
    for key in choice.keys:
        parts += [
            f"## {shaped_label(key, configs_of(runs))}",
            *(f"```{name}\n{address}{choice.query(key=key)}\n```" for name in ("chart", "figures")),
        ]
    return "\n\n".join([*parts, "## Conclusion", "*Write the conclusion here.*"]) + "\n"


def _chips(selection: Compared) -> list[dict[str, Any]]:
    """Return each run with the URL of the page without it (that URL names all other runs and drops the filter)."""
    ids = [run.pk for run in selection.runs]
    tones = _tones(selection)
    return [
        {
            "run": run,
            "tone": tones.get(run.pk, run_tone(run.tone)),
            "without": selection.choice.query(runs=",".join(pk for pk in ids if pk != run.pk), filter=""),
        }
        for run in selection.runs
    ]


def _tones(selection: Compared) -> dict[str, int | str]:
    """Return the colour of each run: that of its group, as on the charts; empty if the runs cannot be grouped."""
    try:
        groups = groups_make(selection.runs, selection.choice.by)
    except ConfigError:
        return {}
    return {run.pk: group.tone for group in groups for run in group.runs}


def _keys(runs: Sequence[Run]) -> list[str]:
    series = Series.objects.filter(run__in=[run.pk for run in runs[:CHIPS]])
    return list(series.order_by("key").values_list("key", flat=True).distinct())


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
    link = share_link(request, secret)
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
    selection, page = compared(request), lenient(Strips, {"page": request.GET.get("page", "")}).page
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
