"""The API of comparisons."""

from typing import Annotated

from pydantic import Field
from rest_framework.request import Request

from troupe_client.documents import compare as documents
from webapp.api.routes import Routes
from webapp.compare.choice import MOST_GROUPED, MOST_RUNS, Choice, meant, repeated, runs_chosen
from webapp.compare.curves import curves_read
from webapp.compare.probes import plays_read
from webapp.compare.statistics import runs_compare
from webapp.compare.table import configs_differ, table_read
from webapp.runs.models import Run
from webapp.runs.selectors import runs_visible

routes = Routes()


def asked(request: Request, query: Choice, most: int = MOST_RUNS) -> tuple[list[Run], Choice]:
    """Return the requested runs and the options of their comparison. Raises ConfigError (also for more than `most` runs), Http404."""
    choice = query.model_copy(update=repeated(request.query_params))
    runs = runs_chosen(runs_visible(request.user), choice.run_ids, choice.filter, choice.by, most)
    return runs, choice if "key" in request.query_params else meant(choice, runs)


@routes.get("compare/", name="compare")
def compare(request: Request, query: Choice) -> documents.Comparison:
    """Return N, mean, sd, interquartile mean with its 95% bootstrap interval per group; probability of improvement per pair."""
    runs, choice = asked(request, query, MOST_GROUPED)
    return documents.Comparison(**runs_compare(runs, choice, choice.keys[0]))


@routes.get("compare/curves/", name="compare-curves")
def compare_curves(request: Request, query: Choice) -> documents.ComparedCurves:
    """Return per group the mean, the band and the number of runs at every point of one axis."""
    runs, choice = asked(request, query, MOST_GROUPED)
    return documents.ComparedCurves(**curves_read(runs, choice, choice.keys[0]))


@routes.get("compare/config/", name="compare-config")
def compare_config(request: Request, query: Choice) -> documents.ComparedConfigs:
    """Return the fields in which the configs differ, with a cell per group."""
    runs, choice = asked(request, query)
    return documents.ComparedConfigs(**configs_differ(runs, choice.by, choice.all))


@routes.get("compare/table/", name="compare-table")
def compare_table(request: Request, query: Choice) -> documents.ComparedTable:
    """Return the runs by fields and metrics, and those that match the brushes."""
    runs, choice = asked(request, query)
    return documents.ComparedTable(**table_read(runs, choice))


@routes.get("compare/probes/", name="compare-probes")
def compare_probes(
    request: Request,
    query: Choice,
    page: Annotated[int, Field(ge=0, description="Zero-based; a page has four tasks.")] = 0,
) -> documents.ComparedPlays:
    """Return per task one episode of each run: the text of every turn, and its differences from the first run's."""
    runs, choice = asked(request, query)
    return documents.ComparedPlays(**plays_read(runs, choice, min(page, 10_000)))
