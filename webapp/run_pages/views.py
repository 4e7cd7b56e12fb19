"""Pages of a run: overview, curves, logs, config, checkpoints; actions on the run, its notes and its checkpoints."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from training_core.config.files import parse_config, to_toml
from training_core.errors import ConfigError, TroupeError
from troupe_client.documents.checkpoints import CheckpointsPruneBody
from troupe_client.documents.runs import RunMark, RunNoteBody, RunNoteChangeBody
from webapp.accounts.models import User
from webapp.accounts.permissions import Visitor, can_edit
from webapp.agents.registry import agent_pages
from webapp.api.routes import lenient, parsed
from webapp.checkpoints.lineage import lineage_drawing, lineage_shown
from webapp.checkpoints.models import Checkpoint
from webapp.checkpoints.services import (
    checkpoint_do,
    checkpoint_figures,
    checkpoint_rivals,
    checkpoint_to_resume,
    checkpoints_list,
    checkpoints_prune,
)
from webapp.common.formats import size
from webapp.common.redirects import back
from webapp.experiments.commands import curl_command, launch_command
from webapp.experiments.forms import lines_overrides
from webapp.health.services import finding_document, findings_read
from webapp.jobs.services import jobs_visible
from webapp.metrics.names import names_first, names_reported
from webapp.metrics.panels import board_data
from webapp.metrics.selectors import CHART_POINTS, SeriesRow, key_names, series_read, series_rows
from webapp.provenance.services import provenance_context
from webapp.run_pages.charts import (
    AXIS_KEYS,
    MOST_OFFERED,
    MOST_SHOWN,
    Panel,
    all_sections,
    axes_of,
    layout_panels,
    names_of_chart,
    overview_panels,
    panel_get,
    part_of,
)
from webapp.run_pages.costs import run_cost
from webapp.run_pages.marks import KINDS, marks_shown
from webapp.run_pages.overview import (
    Lead,
    base_models,
    before_training,
    compared_keys,
    episode_tiles,
    leads_of,
    overview_tiles,
    tile_keys,
    tile_specs,
)
from webapp.run_table.saved_views import panel_views
from webapp.runs.configs import LABELS, changes, config_again, config_named, flatten
from webapp.runs.frame import framed_run, is_resumable, run_context
from webapp.runs.logs import LEVELS, LineFilter, log_lines, log_sources
from webapp.runs.models import LogLine, Run, RunNote
from webapp.runs.notes import MOST as HEADLINES
from webapp.runs.notes import (
    run_headline_set,
    run_note_add,
    run_note_change,
    run_note_get,
    run_note_remove,
    run_notes_list,
)
from webapp.runs.selectors import attempts_of, facts_of, run_get
from webapp.runs.states import TransitionRefused
from webapp.scheduling.forking import run_resume_edited
from webapp.scheduling.services import run_do
from webapp.transcripts.episodes import quarters_read
from webapp.transcripts.models import Episode

EVENTS = 8
"""Maximum number of events on the overview."""
TAIL = 500
"""Initial number of log lines."""
TRACEBACK = "Traceback (most recent call last)"


def checkpoint_context(run: Run) -> dict[str, Any]:
    """Return the context of the table of checkpoints."""
    settings_ = run.config["checkpoint"]
    return {
        "checkpoints": checkpoints_list(run),
        "best_of": settings_["best_of"],
        "keep": settings_["keep"],
        "every": settings_["every"],
        "folder": f"TROUPE_HOME/runs/{run.pk}",  # the absolute path is only known to the server's owner
    }


def curves_data(
    config: Mapping[str, Any],
    keys: Iterable[str],
    panels: Iterable[Panel],
    marks: Iterable[RunMark],
    leads: Iterable[Lead] = (),
) -> dict[str, Any]:
    """Return the data for drawing charts before any series is loaded; `keys` are all of the run's metrics."""
    return {
        "charts": [panel.json() for panel in panels],
        "axes": {name: key for name, (_, key) in axes_of(keys, config).items() if key},
        "marks": [mark.model_dump() for mark in marks],
        "leads": [lead.json() for lead in leads],
        "whole": True,
    }


def tools_context(keys: Iterable[str], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the tools above charts."""
    return {"axes": {name: label for name, (label, _) in axes_of(keys, config).items()}, "kinds": KINDS}


def events_context(
    user: User | AnonymousUser, notes: Sequence[RunNote], marks: Sequence[RunMark]
) -> dict[str, Any]:
    """Return the events, newest first, and the complete notes."""
    happened = sorted((mark for mark in marks if mark.kind != "note"), key=lambda mark: -mark.time)
    return {
        "happened": happened[:EVENTS],
        "happened_before": max(0, len(happened) - EVENTS),
        "run_notes": notes,
        "person": user,
    }


def log_tail(run: Run, chosen: LineFilter) -> tuple[list[LogLine], bool]:
    """Return the last matching lines, oldest first, and whether there are earlier ones. The last traceback, or else the last
    error, is also an anchor.
    """
    lines = log_lines(run, limit=TAIL + 1, chosen=chosen)
    tail = lines[-TAIL:]
    errors = [line for line in tail if line.level == "error"]
    failure = next(
        (line for line in reversed(errors) if TRACEBACK in line.message), errors[-1] if errors else None
    )
    for line in tail:
        line.anchor = "traceback" if line is failure else ""  # type: ignore[attr-defined]
    return tail, len(lines) > TAIL


def config_context(run: Run, toml: str, address: str, attempt: str = "") -> dict[str, Any]:
    """Return the config, its differences from the preset, and the command that launches it again."""
    config, checkpoints = config_again(run), checkpoints_list(run)
    changed = changes(run.preset, config) if run.preset else []
    overrides = {change.path: change.value for change in changed}
    body = {"preset": run.preset, "overrides": overrides} if run.preset else {"config": config}
    return {
        "toml": toml,
        "changes": [change for change in changed if change.path not in LABELS],
        "launch": launch_command(run.preset, overrides) if run.preset else "troupe launch run.toml",
        "curl": curl_command(address, body),
        "record": provenance_context(run, attempt),
        "edited": [attempt for attempt in attempts_of(run) if attempt.changes],
        "resumable": is_resumable(run),
        "kept": [row for row in checkpoints if not (row.removed or row.damaged)],
        "last": checkpoint_to_resume(checkpoints, attempts_of(run)),
    }


LATEST = 12
"""Number of transcripts on the overview."""


@require_GET
def overview_page(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show figures, curves, latest transcripts, base model, checkpoints."""
    run = framed_run(request.user, run_id, whole=True)
    rows = series_rows(run) if run.series_count <= MOST_SHOWN else None
    every = _overview_keys(run) if rows is None else [row.key for row in sorted(rows, key=lambda row: row.pk)]
    panels = overview_panels(run, every, run.headline_keys)
    specs = tile_specs(run, every, run.headline_keys)
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
        "spent": run_cost(run, rows),
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
    layout = [key for panel in layout_panels(run) for key in panel.keys]
    tiles = tile_keys(agent_pages(run.config).tiles, run.config)
    return names_first(run, MOST_OFFERED, [*run.headline_keys, *AXIS_KEYS, *layout, *tiles])


@require_POST
def headline_act(request: HttpRequest, run_id: str) -> HttpResponse:
    """Choose the metrics that the overview shows first: one per line."""
    run = run_get(request.user, run_id)
    try:
        run_headline_set(request.user, run, request.POST.get("headline", "").split("\n"))
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
    sections = all_sections(part.keys, run)
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
    keys = key_names(run) if run.series_count <= MOST_SHOWN else names_of_chart(run, chart)
    panel = panel_get(chart, keys, run)
    if panel is None and run.series_count > MOST_SHOWN:
        panel = panel_get(chart, key_names(run), run)
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
    chosen = lenient(LineFilter, request.GET)
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
        toml = to_toml(parse_config(config_named(run))) if own is None else ""
    except ConfigError as error:
        toml = f"# This config is from another version of Troupe and cannot be read: {error}"
    address = request.build_absolute_uri("/api/v1/runs/")
    context = run_context(request.user, run, "config") | config_context(
        run, toml, address, request.GET.get("attempt", "")
    )
    context |= {"own": sorted(flatten(own or {}).items())} | form
    return render(request, "runs/config.html", context, status=status)


@require_POST
def run_edit_act(request: HttpRequest, run_id: str) -> HttpResponse:
    """Edit the config of an ended run and resume it; errors are shown on the page of the form."""
    run = run_get(request.user, run_id)
    edits = request.POST.get("edits", "")
    try:
        overrides = lines_overrides(edits)
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


@require_POST
def run_note_act(request: HttpRequest, run_id: str, pk: int | None = None) -> HttpResponse:
    """Create a note, or change the text of the note `pk`; redirects back to the form's page."""
    run = run_get(request.user, run_id)
    posted = {name: request.POST[name] for name in ("text", "step") if request.POST.get(name)}
    try:
        if pk is None:
            run_note_add(request.user, run, parsed(RunNoteBody, posted))
        else:
            note = run_note_get(run, pk)
            run_note_change(request.user, note, parsed(RunNoteChangeBody, {"text": posted.get("text", "")}))
    except ConfigError as error:
        messages.error(request, str(error))
    return back(request, reverse("runs:detail", args=[run.pk]))


@require_POST
def run_note_remove_act(request: HttpRequest, run_id: str, pk: int) -> HttpResponse:
    """Remove a note; redirects back to the button's page."""
    run = run_get(request.user, run_id)
    run_note_remove(request.user, run_note_get(run, pk))
    return back(request, reverse("runs:detail", args=[run.pk]))


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
    try:
        wanted = parsed(CheckpointsPruneBody, {name: request.POST.get(name, "") for name in ("last", "best")})
        done = checkpoints_prune(request.user, run, wanted)
    except TroupeError as error:
        messages.error(request, str(error))
    else:
        listed = ", ".join(map(str, done.deleted))
        message = f"Deleted {listed}: {size(done.bytes)}." if listed else "Nothing to delete."
        messages.success(request, message)
    return redirect("runs:checkpoints", run.pk)
