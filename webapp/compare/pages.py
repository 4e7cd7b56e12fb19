"""Shared parts of the comparison pages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from training_core.errors import ConfigError
from webapp.accounts.permissions import Person
from webapp.compare.forms import AXES, BANDS, Choice, choice_read, meant
from webapp.compare.groups import runs_chosen
from webapp.metrics.models import Series
from webapp.run_table.selectors import runs_list
from webapp.runs.config_differences import flatten
from webapp.runs.models import Run
from webapp.runs.selectors import runs_visible

TABS = (
    ("curves", "Curves and figures", "compare:page"),
    ("config", "Config", "compare:config"),
    ("parallel", "Parallel coordinates", "compare:parallel"),
    ("probes", "Same tasks", "compare:probes"),
)
CONTROLS = {
    "curves": {"runs", "filter", "key", "by", "x", "band", "smooth", "log", "at"},
    "config": {"runs", "filter", "by", "all"},
    "parallel": {"runs", "filter", "by", "axes", "key", "brush"},
    "probes": {"runs", "filter", "kind", "at", "task"},
}
"""Form controls of each page; the other parameters are hidden fields."""
CHIPS = 40
"""Maximum number of runs listed by name above the page; for more, only their number is shown."""
LATEST = 12


@dataclass(frozen=True)
class Compared:
    """The runs of a page, or the error message if there are none."""

    choice: Choice
    runs: list[Run]
    wrong: str


def compared(request: HttpRequest) -> Compared:
    """Return the runs and options of the URL. Raises Http404 for runs not visible to the reader."""
    choice = choice_read(request.GET)
    if not (choice.run_ids or choice.filter):
        return Compared(choice, [], "")
    try:
        runs = runs_chosen(runs_visible(request.user), choice.run_ids, choice.filter)
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
        ],
        "groupings": _groupings(selection.runs, choice.by),
        "axes": AXES,
        "bands": BANDS,
        "cited": _cited(choice),
        "known_keys": _keys(selection.runs),
        "latest": [] if selection.runs else runs_list(user)[:LATEST],
    }


def _cited(choice: Choice) -> str:
    """Return blocks of a report that show this comparison."""
    address = f"{reverse('compare:page')}?"
    blocks = [
        f"```{name}\n{address}{choice.query(key=key)}\n```"
        for key in choice.keys
        for name in ("chart", "figures")
    ]
    return "\n\n".join(blocks) + "\n"


def _chips(selection: Compared) -> list[dict[str, Any]]:
    """Return each run with the URL of the page without it (that URL names all other runs and drops the filter)."""
    ids = [run.pk for run in selection.runs]
    return [
        {
            "run": run,
            "without": selection.choice.query(runs=",".join(pk for pk in ids if pk != run.pk), filter=""),
        }
        for run in selection.runs
    ]


def _keys(runs: Sequence[Run]) -> list[str]:
    series = Series.objects.filter(run__in=[run.pk for run in runs[:CHIPS]])
    return list(series.order_by("key").values_list("key", flat=True).distinct())


def _groupings(runs: Sequence[Run], chosen: str) -> list[tuple[str, str]]:
    """Return family, run, and every config field with at least two distinct values and fewer than one per run."""
    values: dict[str, set[str]] = {}
    for config in [flatten(run.config) for run in runs]:
        for path, value in config.items():
            values.setdefault(path, set()).add(str(value))
    fields = [path for path, met in values.items() if len(met) > 1]
    if chosen not in ("family", "run", *fields):
        fields.append(chosen)
    return [("family", "everything except the seed"), ("run", "each run"), *((path, path) for path in fields)]
