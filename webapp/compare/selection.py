"""Selection of runs. Of more than MOST_RUNS only the few fields are read by which they are grouped: their configs are megabytes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.db.models import F, Func, JSONField, QuerySet, Value
from django.http import Http404

from training_core.errors import ConfigError
from webapp.run_table.filters import runs_filter
from webapp.runs.models import Run

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
    value: Any = run.config
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


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
