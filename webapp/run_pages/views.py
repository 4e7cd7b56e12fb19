"""Pages of runs: the list, and the tabs of one run."""

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from training_core.config.files import parse_config, parse_overrides, to_toml
from training_core.errors import ConfigError, TroupeError
from webapp.accounts.permissions import Visitor, can_edit
from webapp.agents.registry import agent_pages
from webapp.checkpoints.lineage import lineage_shown
from webapp.common.redirects import back
from webapp.common.templatetags.troupe import pretty
from webapp.health.services import finding_document, findings_read
from webapp.metrics.names import names_first, names_reported
from webapp.metrics.selectors import CHART_POINTS, SeriesRow, key_names, series_read, series_rows
from webapp.panels.context import board_data
from webapp.run_pages.ancestry import leads_of
from webapp.run_pages.base_models import base_models, before_training
from webapp.run_pages.charts import AXIS_KEYS, all_sections, axes_of
from webapp.run_pages.context import (
    checkpoint_context,
    config_context,
    curves_data,
    events_context,
    log_tail,
    tools_context,
)
from webapp.run_pages.forms import LogFilters
from webapp.run_pages.layouts import layout_panels, overview_panels, panel_get
from webapp.run_pages.marks import marks_shown
from webapp.run_pages.spending import spending_read
from webapp.run_pages.tiles import compared_keys, episode_tiles, overview_tiles, tile_keys, tile_specs
from webapp.run_pages.wide_runs import MOST, MOST_OFFERED, names_of_chart, part_of
from webapp.run_table.saved_views import panel_views
from webapp.runs.config_differences import config_named
from webapp.runs.facts import facts_of
from webapp.runs.frame import framed_run, run_context
from webapp.runs.headlines import MOST as HEADLINES
from webapp.runs.headlines import run_headline_set
from webapp.runs.logs import LEVELS, LineFilter, log_sources
from webapp.runs.models import Run
from webapp.runs.notes import run_notes_list
from webapp.runs.selectors import attempts_of, run_get
from webapp.runs.states import TransitionRefused
from webapp.scheduling.forking import run_resume_edited
from webapp.scheduling.services import run_do
from webapp.transcripts.models import Episode
from webapp.transcripts.quarters import quarters_read

PER_PAGE = 50
LATEST = 12
"""Number of transcripts on the overview."""


@require_GET
def overview_page(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show figures, curves, latest transcripts, base model, checkpoints."""
    run = framed_run(request.user, run_id, whole=True)
    rows = series_rows(run) if run.series_count <= MOST else None
    every = _overview_keys(run) if rows is None else [row.key for row in sorted(rows, key=lambda row: row.pk)]
    panels = overview_panels(run.config, every, run.headline_keys)
    specs = tile_specs(run.config, every, run.headline_keys)
    drawn = [line.key for panel in panels for line in panel.lines]
    series = _series(run, rows, drawn, [key for key in tile_keys(specs, run.config) if key not in drawn])
    checkpoint_data, notes, findings = checkpoint_context(run), run_notes_list(run), findings_read(run)
    marks = marks_shown(request.user, run, checkpoint_data["checkpoints"], notes, findings)
    leads = leads_of(request.user, run)
    parent = leads[0].run if leads else None
    data = curves_data(run.config, every, panels, marks, leads) | {
        "series": series,
        "whole": False,
        "known": every,
        "versus": {"id": parent.pk, "keys": compared_keys(run.config)} if parent else None,
    }
    context = (
        run_context(request.user, run, "overview", **data)
        | checkpoint_data
        | tools_context(every, run.config)
    )
    context |= {
        "panels": panels,
        "tiles": overview_tiles(run.config, specs, series, run.parent_iteration, parent)
        or episode_tiles(run),
        "every": every[:MOST_OFFERED],
        "most_headlines": HEADLINES,
        "leads": leads,
        "spent": spending_read(run, rows),
        "base_models": base_models(run.config, facts_of(run)),
        "before": before_training(series),
        "findings": []
        if isinstance(request.user, Visitor)
        else [finding_document(finding) for finding in findings if finding.state == "open"][:3],
        "episodes": Episode.objects.of_run(run).order_by("-pk").defer("words", "groups")[:LATEST],
        "quarters": quarters_read(run),
        "most": LATEST,
        "checkpoints": [row for row in checkpoint_data["checkpoints"] if not row.removed],
        "attempts": attempts_of(run),
        "lineage": lineage_shown(request.user, run, forks=context["facts"]["forks"]),
        **events_context(request.user, notes, marks),
    }
    return render(request, "runs/detail.html", context)


def _series(
    run: Run, rows: list[SeriesRow] | None, drawn: list[str], tiles: list[str]
) -> dict[str, dict[str, Any]]:
    """Return the series of the charts, and the ends of the others; those that a fork is compared by are drawn."""
    compared = compared_keys(run.config)
    drawn = [*drawn, *(key for key in tiles if key in compared)]
    ends = set(tiles) - set(drawn)
    columns = series_read(run, [*drawn, *ends], CHART_POINTS, until=run.event_count, rows=rows, ends=ends)
    empty: dict[str, Any] = {"steps": [], "values": [], "times": [], "attempts": []}
    return {key: columns.get(key, empty) for key in dict.fromkeys([*drawn, *tiles])}


def _overview_keys(run: Run) -> list[str]:
    """Return the metrics of a run with many that its overview may show: those that it has chosen, those of its layout and axes, and
    the first ones by name.
    """
    layout = [key for panel in layout_panels(run.config) for key in panel.keys]
    tiles = tile_keys(agent_pages(run.config).tiles, run.config)
    return names_first(run, MOST_OFFERED, [*run.headline_keys, *AXIS_KEYS, *layout, *tiles])


@require_POST
def headline_act(request: HttpRequest, run_id: str) -> HttpResponse:
    """Choose the metrics that the overview shows first: one per line."""
    run = run_get(request.user, run_id)
    try:
        run_headline_set(request.user, run, request.POST.get("headline", "").splitlines())
    except ConfigError as error:
        messages.error(request, str(error))
    return redirect("runs:detail", run.pk)


@require_GET
def curves_page(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show every metric, by section."""
    run = run_get(request.user, run_id)
    asked = {name: request.GET.get(name, "").replace("\0", "") for name in ("q", "section", "after")}
    is_pattern = request.GET.get("regex") == "1"
    part = part_of(run, asked["section"], asked["q"], is_pattern=is_pattern, after=asked["after"])
    sections = all_sections(part.keys, run.config)
    panels = [panel for section in sections for panel in section.panels]
    leads = leads_of(request.user, run)
    context = {
        "leads": leads,
        "sections": sections,
        "part": part,
        "run": run,
        "is_pattern": is_pattern,
        **asked,
    }
    if part.limited and request.GET.get("part") == "charts":
        context |= {"specs": [panel.json() for panel in panels], "agents": agent_pages(run.config)}
        return render(request, "runs/_curves_part.html", context)
    keys = names_first(run, MOST_OFFERED, AXIS_KEYS) if part.limited else part.keys
    data = curves_data(run.config, keys, panels, marks_shown(request.user, run), leads)
    data["whole"] = not part.limited
    context |= run_context(request.user, run, "curves", **data)
    context |= tools_context(keys, run.config)
    if not isinstance(request.user, Visitor):
        views = panel_views(request.user, run.project)
        search = reverse("api:run-series", args=[run.pk]) if part.limited else ""
        context |= {
            "board": board_data([run.pk], [run.pk], (), keys) | {"quiet": True, "search": search},
            "panel_views": views,
            "board_axes": axes_of(keys, run.config),
        }
    return render(request, "runs/curves.html", context)


@require_GET
def chart_page(request: HttpRequest, run_id: str, chart: str) -> HttpResponse:
    """Show one chart on its own page."""
    run = run_get(request.user, run_id)
    keys = key_names(run) if run.series_count <= MOST else names_of_chart(run, chart)
    panel = panel_get(chart, keys, run.config)
    if panel is None and run.series_count > MOST:
        panel = panel_get(chart, key_names(run), run.config)
    if panel is None:
        raise Http404(f"the run {run.pk} has no chart {chart}")
    leads = leads_of(request.user, run)
    axes = names_reported(run, AXIS_KEYS)
    data = curves_data(run.config, axes, [panel], marks_shown(request.user, run), leads)
    context = run_context(request.user, run, "curves", **data) | {"leads": leads}
    context |= {"panel": panel, "alone": True, **tools_context(axes, run.config)}
    return render(request, "runs/chart.html", context)


@require_GET
def logs_page(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show the end of the log, with the filters of the URL."""
    run = run_get(request.user, run_id)
    chosen = LogFilters(request.GET).chosen()
    lines, earlier = log_tail(run, chosen)
    sources = dict.fromkeys([*log_sources(run), *filter(None, [chosen.source])])
    context = run_context(request.user, run, "logs") | {
        "chosen": chosen,
        "filtered": chosen != LineFilter(),
        "levels": LEVELS.items(),
        "sources": [(source, source) for source in sources],
        "lines": lines,
        "earlier": earlier,
    }
    return render(request, "runs/logs.html", context)


@require_GET
def config_page(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show the config as TOML, its differences from the preset, and the command that launches the same run."""
    return _config_page(request, run_get(request.user, run_id), {})


def _config_page(request: HttpRequest, run: Run, form: dict[str, Any], status: int = 200) -> HttpResponse:
    try:
        own = run.config.get("client")
        toml = to_toml(parse_config(config_named(run))) if own is None else pretty(dict(sorted(own.items())))
    except ConfigError as error:
        toml = f"# This config is from another version of Troupe and cannot be read: {error}"
    address = request.build_absolute_uri("/api/v1/runs/")
    context = run_context(request.user, run, "config") | config_context(
        run, toml, address, request.GET.get("attempt", "")
    )
    context |= form
    return render(request, "runs/config.html", context, status=status)


@require_POST
def run_edit_act(request: HttpRequest, run_id: str) -> HttpResponse:
    """Edit the config of an ended run and resume it; errors are shown on the page of the form."""
    run = run_get(request.user, run_id)
    edits = request.POST.get("edits", "")
    try:
        overrides = parse_overrides(list(filter(str.strip, edits.splitlines())))
        run_resume_edited(request.user, run, overrides, request.POST.get("checkpoint", ""))
    except ConfigError as error:
        wrong = [f"{path}: {text}" if path else text for path, text in error.fields.items()]
        form = {"edits": edits, "wrong": wrong, "chosen": request.POST.get("checkpoint", "")}
        return _config_page(request, run, form, status=400)
    except TransitionRefused as error:
        messages.error(request, str(error))
    return redirect("runs:detail", run.pk)


@require_POST
def run_act(request: HttpRequest, run_id: str, act: str) -> HttpResponse:
    """Apply stop, pause, end now or resume (from a posted `checkpoint`), and redirect to the button's page."""
    run = run_get(request.user, run_id)
    if act not in ("stop", "pause", "end_now", "resume"):
        raise Http404
    if not can_edit(request.user, run.project):
        raise PermissionDenied
    try:
        chosen = request.POST.get("checkpoint", "") if act == "resume" else ""
        if chosen:
            run_resume_edited(request.user, run, {}, chosen)
        else:
            run_do(request.user, run, act)
    except TroupeError as error:
        messages.error(request, str(error))
    return back(request, reverse("runs:detail", args=[run.pk]))
