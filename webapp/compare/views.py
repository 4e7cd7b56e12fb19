"""Pages of comparisons."""

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from training_core.errors import ConfigError
from webapp.compare.configs import configs_differ, sections_of
from webapp.compare.pages import Compared, compared, page_context, told
from webapp.compare.selectors import runs_compare


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


def _panel(found: Compared, key: str) -> dict[str, Any]:
    """A metric's chart and its figures, or why there are none."""
    panel: dict[str, Any] = {
        "key": key,
        "source": f"{reverse('api:compare-curves')}?{found.choice.query(key=key)}",
        "log": found.choice.log,
    }
    try:
        return panel | {"figures": _figures(runs_compare(found.runs, found.choice, key))}
    except ConfigError as error:
        return panel | {"wrong": told(error)}


def _figures(said: dict[str, Any]) -> dict[str, Any]:
    """The matrix of improvement beside the groups: row better than column; None on the diagonal."""
    pairs = {(pair["better"], pair["than"]): pair for pair in said["pairs"]}
    groups = said["groups"]
    rows = []
    for one in groups:
        cells = [_cell(one["group"], other["group"], pairs) for other in groups]
        rows.append({"group": one, "cells": cells})
    return said | {"matrix": rows if pairs else [], "uneven": _uneven(said)}


def _cell(one: str, other: str, pairs: dict[tuple[str, str], Any]) -> dict[str, Any] | None:
    if pair := pairs.get((one, other)):
        return {"probability": pair["probability"], "interval": pair["interval"]}
    if pair := pairs.get((other, one)):
        bounds = pair["interval"]
        turned = [1 - bounds[1], 1 - bounds[0]] if bounds else None
        return {"probability": 1 - pair["probability"], "interval": turned}
    return None


def _uneven(said: dict[str, Any]) -> bool:
    """Whether the values stand at different steps."""
    steps = {step for group in said["groups"] for step in (group["first_step"], group["last_step"])}
    return len(steps) > 1
