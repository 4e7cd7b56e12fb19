"""What is compared: the parameters of a comparison's address (reports and the API use the same names), the selected runs, their groups.

Of more than MOST_RUNS runs only the few fields are read by which they are grouped: their configs are megabytes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean
from typing import Any, Literal
from urllib.parse import urlencode

from django.db import connection
from django.db.models import F, Func, JSONField, QuerySet, Value
from django.http import Http404, QueryDict
from pydantic import BaseModel, ConfigDict, Field, field_validator

from training_core.errors import ConfigError
from webapp.agents.registry import agent_pages
from webapp.api.routes import lenient, parsed
from webapp.common.tones import run_tone
from webapp.metrics.expressions import expression_read
from webapp.metrics.panels import AXES
from webapp.metrics.panels import BANDS as PANEL_BANDS
from webapp.run_table.columns import config_at, metric_compared
from webapp.run_table.filters import runs_filter
from webapp.runs.configs import ASIDE, differing, flatten
from webapp.runs.models import Run

KEY = "eval/success"
"""Default metric."""
MOST_KEYS = 6
BANDS = [*PANEL_BANDS[:-1], ("runs", "every run's line"), ("none", "nothing")]
TOPS = [("highest", "highest"), ("lowest", "lowest")]
KINDS = [("eval", "greedy evaluation"), ("eval_sampled", "sampled evaluation")]


def names_of(text: str) -> list[str]:
    """Return the comma-separated words without duplicates."""
    return list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


class Choice(BaseModel):
    """A selection of runs and the options of their comparison: the query parameters. Defaults are omitted from URLs."""

    model_config = ConfigDict(frozen=True, str_strip_whitespace=True)

    runs: str = Field("", max_length=8000, description="Comma-separated ids.")
    filter: str = Field("", max_length=2000, description="And runs that match this filter.")
    key: str = Field(
        KEY,
        max_length=1000,
        description="The metric or expression of metrics, default eval/success (small networks: eval/return; custom programs: "
        "a headline metric); of several, the first.",
    )
    by: str = Field(
        "family",
        max_length=200,
        description="family (everything except the seed), run, or a dotted config field.",
    )
    x: str = Field(
        "step",
        max_length=200,
        description="Axis of curves: step, time (seconds), tokens, episodes, env_steps, or a metric or expression of metrics.",
    )
    band: Literal["sd", "ci", "minmax", "runs", "none"] = Field("sd", description="Of curves.")
    smooth: float = Field(
        0.0,
        ge=0,
        le=0.99,
        allow_inf_nan=False,
        description="Of curves: weight of previous values, 0 to 0.99.",
    )
    log: bool = Field(False, description="A logarithmic value axis.")
    at: str = Field(
        "last",
        pattern=r"^(last|common|\d{1,17})$",
        description="The value to compare: last, common (at the last step reached by all), or a step.",
    )
    top: Literal["highest", "lowest"] = Field(
        "highest",
        description="Of too many groups, those with the highest or the lowest mean of the last values.",
    )
    all: bool = Field(False, description="Of configs: also fields that are equal in all runs.")
    axes: str = Field(
        "", max_length=2000, description="Of a table: comma-separated config fields and metrics."
    )
    brush: str = Field(
        "",
        max_length=2000,
        description="Of a table: selected ranges of axes, name:least:most, or name:value.",
    )
    kind: Literal["eval", "eval_sampled"] = Field(
        "eval", description="Of episodes: greedy or sampled evaluation."
    )
    task: str = Field("", max_length=200, description="Of episodes: only this task.")

    @field_validator("x")
    @classmethod
    def _expression(cls, x: str) -> str:
        if x not in AXES:
            try:
                expression_read(x, "x")
            except ConfigError as error:
                raise ValueError(error.fields["x"]) from error
        return x

    @property
    def run_ids(self) -> list[str]:
        """Return the ids of the selected runs."""
        return names_of(self.runs)

    @property
    def keys(self) -> list[str]:
        """Return the first MOST_KEYS selected metrics."""
        return names_of(self.key)[:MOST_KEYS] or [KEY]

    def said(self) -> dict[str, Any]:
        """Return the options that differ from their defaults, as query parameters."""
        facts = self.model_dump(exclude_defaults=True)
        return {name: "1" if value is True else value for name, value in facts.items()}

    def query(self, **changes: Any) -> str:
        """Return the query string of these options, with some fields changed."""
        return urlencode(self.model_copy(update=changes).said(), safe=",/")


def meant(choice: Choice, runs: Sequence[Run]) -> Choice:
    """Return the choice with the runs' own default metric if none was requested and all runs share it."""
    if choice.key != KEY:
        return choice
    if key := metric_compared(runs):
        return choice.model_copy(update={"key": key})
    headlines = {agent_pages(config).headline for config in configs_of(runs)}
    return choice.model_copy(update={"key": headlines.pop()}) if len(headlines) == 1 else choice


def choice_read(query: QueryDict) -> Choice:
    """Return the choice of a page's URL; invalid parameters are ignored. `runs` and `key` may be repeated."""
    return lenient(Choice, query.dict() | repeated(query))


def choice_demand(query: QueryDict) -> Choice:
    """Return the choice of a request. Raises ConfigError for invalid parameters."""
    texts = query.dict() | repeated(query)
    return parsed(Choice, {name: text for name, text in texts.items() if text})


def repeated(query: QueryDict) -> dict[str, str]:
    """Return the parameters that may be repeated, their values joined by commas."""
    return {name: ",".join(query.getlist(name)) for name in ("runs", "key") if name in query}


MOST_RUNS = 500
"""Maximum number of runs that are compared one by one."""
MOST_GROUPED = 20_000
"""Maximum number of runs whose groups are compared."""
SAMPLES = 100
"""Maximum number of configs that are read of more than MOST_RUNS runs."""
_GROUPED = "grouped"
"""Attribute of runs without configs: the value of the field by which they are grouped."""


def runs_chosen(
    visible: QuerySet[Run], run_ids: Sequence[str], filter_text: str, by: str = "", most: int = MOST_RUNS
) -> list[Run]:
    """Return the named runs, in that order, then those that match the filter, newest first; archived ones only if requested.

    More than MOST_RUNS have no config, only the value of the field `by`: see `config_value`, `configs_of`.
    Raises ConfigError (none, more than `most`, an invalid filter), Http404 for a run that is not visible.
    """
    wanted = list(dict.fromkeys(run_ids))[: most + 1]
    named = [run_id for run_id in wanted if "\0" not in run_id]
    if not filter_text:
        _check(len(wanted), most)
        return _named(visible if len(wanted) <= MOST_RUNS else _light(visible, by), wanted, named)
    candidates = visible if "archived" in filter_text else visible.filter(archived=False)
    fitting = runs_filter(candidates, filter_text).exclude(pk__in=named).order_by("-created_at", "pk")
    light = _named(_light(visible, by), wanted, named) + list(_light(fitting, by)[: most + 1])
    _check(len(light), most)
    ids = [run.pk for run in light]
    return light if len(ids) > MOST_RUNS else _named(visible, ids, ids)


def _check(count: int, most: int) -> None:
    if not 0 < count <= most:
        words = "Name fewer runs, or use a narrower filter." if count else ""
        raise ConfigError({"runs": f"choose 1 to {most} runs, by id or by a filter. {words}".strip()})


def _named(visible: QuerySet[Run], wanted: Sequence[str], valid: Sequence[str]) -> list[Run]:
    if not wanted:
        return []
    by_id = {run.pk: run for run in visible.filter(pk__in=valid)}
    if missing := [run_id for run_id in wanted if run_id not in by_id]:
        raise Http404(f"Run '{missing[0]}' not found, or you do not have access.")
    return [by_id[run_id] for run_id in wanted]


def _light(runs: QuerySet[Run], by: str) -> QuerySet[Run]:
    """Return the runs with few fields, and the value of a config field if they are grouped by one."""
    few = (
        runs.select_related(None).prefetch_related(None).only("name", "family", "tone", "state", "project_id")
    )
    if by in ("", "family", "run"):
        return few
    path = Value([part.replace("\0", "") for part in by.split(".")])
    value = Func(
        F("config"),
        path,
        template="(%(expressions)s::text[])",
        arg_joiner=" #> ",
        output_field=JSONField(),
    )
    return few.annotate(**{_GROUPED: value})


def config_value(run: Run, path: str) -> Any:
    """Return the value of a dotted field of a run's config, None without one. A run without config has the field of its selection."""
    if "config" not in vars(run):
        return getattr(run, _GROUPED)
    return config_at(run.config, path)


def configs_of(runs: Sequence[Run]) -> Iterator[Mapping[str, Any]]:
    """Yield the configs of the runs; of runs without configs those of SAMPLES runs: one of each family, then others."""
    sample = list(runs)
    if len(runs) > MOST_RUNS:
        firsts: dict[str, Run] = {}
        for run in runs:
            firsts.setdefault(run.family or run.pk, run)
        families = list(firsts.values())[: SAMPLES // 2]
        sample = list(dict.fromkeys([*families, *runs[:SAMPLES]]))[:SAMPLES]
    yield from configs_by_run(sample).values()


def configs_by_run(runs: Sequence[Run]) -> dict[str, Mapping[str, Any]]:
    """Return run -> config; one query reads the configs of runs without them."""
    configs = {run.pk: run.config for run in runs if "config" in vars(run)}
    absent = [run.pk for run in runs if run.pk not in configs]
    if absent:
        configs |= dict(Run.objects.filter(pk__in=absent).values_list("pk", "config"))
    return configs


MOST_GROUPS = 24
GROUP_BY = "group by everything except the seed or by a config field, or name fewer runs"
_LASTS = "SELECT run_id, last_value, last_step FROM metrics_series WHERE run_id = ANY(%s) AND key = %s"
TONES: tuple[int | str, ...] = (1, 2, 3, 4, 5, 6, 0, "accent")
"""Colours of groups by index; a run has its own colour. Further lines of a colour are dashed."""
ASIDE_PATHS = {f"run.{name}" for name in ASIDE}
SAID = 3
"""Number of fields in a label that distinguish groups of the same name."""


@dataclass
class RunGroup:
    """Runs that are compared as one unit."""

    key: str
    label: str
    tone: int | str
    runs: list[Run]


@dataclass(frozen=True)
class BestGroups:
    """The runs of the groups that are drawn, and the number of further groups."""

    runs: list[Run]
    omitted: int


def best_groups(runs: Sequence[Run], choice: Choice, key: str) -> BestGroups:
    """Return the runs of at most MOST_GROUPS groups: those with the highest (or lowest: `choice.top`) mean of the last values of the
    metric; of an expression, those of the first runs.

    Runs are in their order. Raises ConfigError for more than MOST_GROUPS runs that are not grouped.
    """
    members = _members(runs, choice.by)
    if len(members) <= MOST_GROUPS:
        return BestGroups(list(runs), 0)
    if choice.by == "run":
        raise ConfigError({"by": f"{len(members)} lines; at most {MOST_GROUPS} are drawn: {GROUP_BY}"})
    drawn = list(members)[:MOST_GROUPS]
    if expression_read(key).single:
        lasts = last_points(runs, key)
        means = {
            group: fmean(lasts[run.pk][0] for run in some if run.pk in lasts)
            for group, some in members.items()
            if any(run.pk in lasts for run in some)
        }
        drawn = sorted(means, key=means.__getitem__, reverse=choice.top != "lowest")[:MOST_GROUPS]
    compared = {run.pk for group in drawn for run in members[group]}
    return BestGroups([run for run in runs if run.pk in compared], len(members) - len(drawn))


def last_points(runs: Sequence[Run], key: str) -> dict[str, tuple[float, int]]:
    """Return the last value of a metric, and its step, by run, for the runs with a finite one."""
    with connection.cursor() as cursor:
        cursor.execute(_LASTS, [[run.pk for run in runs], key])
        return {run: (value, step) for run, value, step in cursor.fetchall() if isfinite(value)}


def groups_make(runs: Iterable[Run], by: str) -> list[RunGroup]:
    """Group runs, in the order of their first runs. by: "family" (everything except the seed), "run", or a dotted config field.

    Raises ConfigError for more than MOST_GROUPS.
    """
    members = _members(runs, by)
    if len(members) > MOST_GROUPS:
        remedy = GROUP_BY if by == "run" else "group by a field with fewer values, or name fewer runs"
        raise ConfigError({"by": f"{len(members)} groups; at most {MOST_GROUPS} are compared: {remedy}"})
    labels = _labels(members, by)
    return [
        RunGroup(
            key, labels[key], run_tone(group[0].tone) if by == "run" else TONES[index % len(TONES)], group
        )
        for index, (key, group) in enumerate(members.items())
    ]


def _members(runs: Iterable[Run], by: str) -> dict[str, list[Run]]:
    members: dict[str, list[Run]] = {}
    for run in runs:
        members.setdefault(_key(run, by), []).append(run)
    return members


def _key(run: Run, by: str) -> str:
    if by == "run":
        return run.pk
    if by == "family":
        return run.family or run.pk
    value = config_value(run, by)
    return "none" if value is None else str(value)[:200]


def _labels(members: Mapping[str, list[Run]], by: str) -> dict[str, str]:
    """Return labels: the value of a field; for a run or family its name, with the fields that distinguish equal names."""
    if by not in ("run", "family"):
        return {key: f"{by.rpartition('.')[2]} = {key}" for key in members}
    names = {key: group[0].name for key, group in members.items()}
    labels: dict[str, str] = {}
    for name in dict.fromkeys(names.values()):
        same = [key for key in members if names[key] == name]
        labels |= _apart(name, {key: members[key][0] for key in same}, by)
    return {key: labels[key] for key in members}


def _apart(name: str, namesakes: Mapping[str, Run], by: str) -> dict[str, str]:
    if len(namesakes) == 1:
        return dict.fromkeys(namesakes, name)
    trees = configs_by_run(list(namesakes.values()))
    configs = {key: flatten(trees[run.pk]) for key, run in namesakes.items()}
    paths = [path for path in differing(list(configs.values())) if by == "run" or path not in ASIDE_PATHS]
    labels = {}
    for key, run in namesakes.items():
        parts = [f"{path.rpartition('.')[2]} {configs[key].get(path)}" for path in paths[:SAID]]
        labels[key] = " · ".join([name, *parts])
        if by == "run" or not parts:
            labels[key] += f" · {run.pk}"
    return labels
