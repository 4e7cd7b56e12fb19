"""The API of comparisons."""

from django.forms import BooleanField, FloatField
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.api.queries import number
from webapp.api.schema import JSON, parameter
from webapp.compare.configs import configs_differ
from webapp.compare.curves import curves_read
from webapp.compare.forms import Choice, ChoiceForm, choice_demand, meant
from webapp.compare.probes import plays_read
from webapp.compare.selection import MOST_GROUPED, MOST_RUNS, runs_chosen
from webapp.compare.selectors import runs_compare
from webapp.compare.table import table_read
from webapp.runs.models import Run
from webapp.runs.selectors import runs_visible

KINDS = {FloatField: float, BooleanField: bool}
FIELDS = {
    name: parameter(name, KINDS.get(type(field), str), str(field.help_text))
    for name, field in ChoiceForm.base_fields.items()
}


def asked(request: Request, most: int = MOST_RUNS) -> tuple[list[Run], Choice]:
    """Return the requested runs and the options of their comparison. Raises ConfigError (also for more than `most` runs), Http404."""
    choice = choice_demand(request.query_params)
    runs = runs_chosen(runs_visible(request.user), choice.run_ids, choice.filter, choice.by, most)
    return runs, choice if "key" in request.query_params else meant(choice, runs)


class Compare(APIView):
    """Comparison of groups of runs."""

    @extend_schema(
        parameters=[FIELDS[name] for name in ("runs", "filter", "key", "by", "at", "top")],
        responses={200: JSON, 400: JSON},
    )
    def get(self, request: Request) -> Response:
        """Return N, mean, sd, interquartile mean with its 95% bootstrap interval per group; probability of improvement per pair."""
        runs, choice = asked(request, MOST_GROUPED)
        return Response(runs_compare(runs, choice, choice.keys[0]))


class CompareCurves(APIView):
    """Curves of groups of runs."""

    @extend_schema(
        parameters=[FIELDS[name] for name in ("runs", "filter", "key", "by", "x", "band", "smooth", "top")],
        responses={200: JSON, 400: JSON},
    )
    def get(self, request: Request) -> Response:
        """Return per group the mean, the band and the number of runs at every point of one axis."""
        runs, choice = asked(request, MOST_GROUPED)
        return Response(curves_read(runs, choice, choice.keys[0]))


class CompareConfigs(APIView):
    """Configs of groups of runs."""

    @extend_schema(
        parameters=[FIELDS[name] for name in ("runs", "filter", "by", "all")],
        responses={200: JSON, 400: JSON},
    )
    def get(self, request: Request) -> Response:
        """Return {"groups", "same": count, "fields": [{"path", "same", "cells": [{"values", "absent"}]}]}, a cell per group."""
        runs, choice = asked(request)
        return Response(configs_differ(runs, choice.by, choice.all))


class CompareTable(APIView):
    """Runs by fields and metrics."""

    @extend_schema(
        parameters=[FIELDS[name] for name in ("runs", "filter", "key", "by", "axes", "brush")],
        responses={200: JSON, 400: JSON},
    )
    def get(self, request: Request) -> Response:
        """Return {"axes", "rows": [{"run", "name", "values", "places", "kept"}], "kept": ids of the runs that match the brushes}."""
        runs, choice = asked(request)
        return Response(table_read(runs, choice))


class CompareProbes(APIView):
    """Episodes of several runs on the same tasks."""

    @extend_schema(
        parameters=[
            *(FIELDS[name] for name in ("runs", "filter", "kind", "task", "at")),
            parameter("page", int, "zero-based; a page has four tasks"),
        ],
        responses={200: JSON, 400: JSON},
    )
    def get(self, request: Request) -> Response:
        """Return per task one episode of each run: the text of every turn, and its differences from the first run's."""
        runs, choice = asked(request)
        return Response(plays_read(runs, choice, min(number(request, "page", 0), 10_000)))
