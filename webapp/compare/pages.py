"""Shared parts of the comparison pages."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from training_core.errors import ConfigError
from webapp.accounts.permissions import Person
from webapp.agents.registry import with_tokens
from webapp.agents.rewards import shaped_label
from webapp.common.tones import run_tone
from webapp.compare.forms import AXES, BANDS, Choice, choice_read, meant
from webapp.compare.groups import groups_make
from webapp.compare.selection import MOST_RUNS, configs_of, runs_chosen
from webapp.metrics.models import Series
from webapp.run_table.selectors import runs_list
from webapp.runs.config_differences import groupings
from webapp.runs.models import Run
from webapp.runs.selectors import runs_visible

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
    axes = [(name, label) for name, label in AXES if tokens or name != "tokens"]
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
