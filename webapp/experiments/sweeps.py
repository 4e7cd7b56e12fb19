"""Sweeps: the plan of their runs, each validated by the config's schema, and the results of one sweep by varied field."""

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any, cast

from django.db.models import Count, Q, QuerySet
from django.http import Http404
from django.urls import reverse

from training_core.config.files import apply_overrides, read_preset
from training_core.config.foreign import NO_FIELD
from training_core.config.kinds import AnyConfig
from training_core.config.sweeps import SEED, Method, combinations, count, expand_path
from training_core.errors import ConfigError
from troupe_client.documents import sweeps as documents
from troupe_client.documents.sweeps import SweepPlan
from webapp.accounts.permissions import Person
from webapp.accounts.selectors import projects_visible
from webapp.experiments.estimates import cost_of
from webapp.experiments.fields import spell, value_at
from webapp.experiments.models import Sweep
from webapp.metrics.headline import outcome_key
from webapp.runs.configs import check_storable, parse_permitted
from webapp.runs.models import ACTIVE_STATES, ENDED_STATES
from webapp.runs.selectors import run_summary, runs_visible

MOST_RUNS = 200
MOST_AXES = 12
MOST_TOLD = 5
"""Maximum number of combinations with reported errors."""
METHODS = ("grid", "list")


def plan_make(
    preset: str,
    overrides: Mapping[str, Any],
    axes: Mapping[str, Sequence[Any]],
    method: str = "grid",
    *,
    separate_processes: bool = False,
) -> SweepPlan:
    """Validate every value, then every combination. Errors are in the plan's `errors`, by field path; a launch is rejected then."""
    plan = SweepPlan(
        preset=preset,
        overrides=dict(overrides),
        axes={path: list(values) for path, values in axes.items()},
        method=method,
        separate_processes=separate_processes,
    )
    try:
        _check(plan)
        points = list(combinations(plan.axes, cast(Method, method)))
        configs = _configs(plan, points)
    except ConfigError as error:
        return plan.model_copy(update={"errors": error.fields})
    several = len(plan.axes.get(SEED, ())) > 1 and not separate_processes
    shares = several and any(not config.separate_seeds for config in configs)
    facts = {"points": points, "cost": cost_of(configs), "seeds_share_processes": shares}
    return plan.model_copy(update=facts)


def point_overrides(plan: SweepPlan, point: Mapping[str, Any]) -> dict[str, Any]:
    """Return all overrides of one run, with `*` expanded."""
    return plan.overrides | spread(point, _whole(plan.preset, plan.overrides))


def spread(point: Mapping[str, Any], tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run's values by the paths of single fields."""
    return {single: value for path, value in point.items() for single in expand_path(path, tree)}


def column_styles(axes: Mapping[str, Sequence[Any]]) -> dict[str, str]:
    """Return the CSS class of the column of each path: "num" if all values are numbers, otherwise empty."""
    return {
        path: "num" if all(type(value) in (int, float) for value in values) else ""
        for path, values in axes.items()
    }


def short_names(paths: Sequence[str]) -> dict[str, str]:
    """Return the shortest unambiguous suffix of each path, for headings and names."""
    names: dict[str, str] = {}
    for path in paths:
        parts = path.split(".")
        others = [other.split(".") for other in paths if other != path]
        length = next(
            (n for n in range(1, len(parts)) if all(other[-n:] != parts[-n:] for other in others)), len(parts)
        )
        names[path] = ".".join(parts[-length:])
    return names


def point_name(point: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """`clip_low=0.1 · seed=2`."""
    return " · ".join(f"{names[path]}={spell(value)}" for path, value in point.items())


def _check(plan: SweepPlan) -> None:
    """Raises ConfigError for errors of the sweep as a whole, or of one of its values."""
    if plan.method not in METHODS:
        raise ConfigError({"method": f"use one of {', '.join(METHODS)}"})
    if not plan.axes:
        raise ConfigError({"axes": "vary at least one field, or give several seeds"})
    if len(plan.axes) > MOST_AXES:
        raise ConfigError({"axes": f"vary at most {MOST_AXES} fields"})
    tree = _whole(plan.preset, plan.overrides)
    wrong = {path: text for path, values in plan.axes.items() if (text := _wrong(plan, tree, path, values))}
    if wrong:
        raise ConfigError(wrong)
    if (runs := count(plan.axes, cast(Method, plan.method))) > MOST_RUNS:
        raise ConfigError({"axes": f"{runs:,} runs exceed the limit of {MOST_RUNS} for one sweep"})


def _wrong(plan: SweepPlan, tree: Mapping[str, Any], path: str, values: Sequence[Any]) -> str:
    """Return the error of one axis; empty if there is none."""
    if not values:
        return "give one or more values"
    if len(set(map(repr, values))) < len(values):
        return "has the same value twice"
    if path in plan.overrides:
        return "is both fixed and varied; leave out one of them"
    if "*" in path and not expand_path(path, tree):
        return "does not match any field"
    singles = expand_path(path, tree)
    for value in values:
        errors = _mistakes(plan, dict.fromkeys(singles, value))
        own = {at: text for at, text in errors.items() if any(_same(at, single) for single in singles)}
        if own:
            text = next(iter(own.values()))
            return text if text.startswith(NO_FIELD) else f"{spell(value)}: {text}"
    return ""


def _same(at: str, path: str) -> bool:
    """Whether a message at path `at` concerns the field at `path`, a part of it, or an unknown section above it."""
    return at == path or at.startswith(f"{path}.") or path.startswith(f"{at}.")


def _mistakes(plan: SweepPlan, values: Mapping[str, Any]) -> dict[str, str]:
    try:
        parse_permitted(apply_overrides(read_preset(plan.preset), {**plan.overrides, **values}))
    except ConfigError as error:
        return error.fields
    return {}


def _configs(plan: SweepPlan, points: Sequence[Mapping[str, Any]]) -> list[AnyConfig]:
    """Return every run's config. Raises ConfigError for invalid combinations."""
    configs: list[AnyConfig] = []
    wrong: dict[str, str] = {}
    base, tree = read_preset(plan.preset), _whole(plan.preset, plan.overrides)
    names = short_names(list(plan.axes))
    for point in points:
        try:
            config = parse_permitted(apply_overrides(base, {**plan.overrides, **spread(point, tree)}))
            check_storable(config.model_dump(mode="json"))
            configs.append(config)
        except ConfigError as error:
            name = point_name(_without_seed(point), names)
            for path, text in error.fields.items():
                if len(wrong) < MOST_TOLD:
                    wrong.setdefault(path, f"with {name}: {text}")
    if wrong:
        raise ConfigError(wrong)
    return configs


def _whole(preset: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the shared config, with all defaults. Raises ConfigError."""
    return parse_permitted(apply_overrides(read_preset(preset), overrides)).model_dump(mode="json")


def sweeps_visible(user: Person) -> QuerySet[Sweep]:
    """Return the sweeps of the user's projects, newest first, with counts of their runs: `total`, `over`, `active`."""
    return (
        Sweep.objects.filter(project__in=projects_visible(user))
        .select_related("project", "owner")
        .annotate(
            total=Count("runs"),
            over=Count("runs", filter=Q(runs__state__in=ENDED_STATES)),
            active=Count("runs", filter=Q(runs__state__in=ACTIVE_STATES)),
        )
        .order_by("-created_at", "-pk")
    )


def sweep_get(user: Person, pk: int) -> Sweep:
    """Return one sweep. Raises Http404, also for projects that are not visible to the user."""
    sweep = sweeps_visible(user).filter(pk=pk).first()
    if sweep is None:
        raise Http404(f"there is no sweep {pk} that is visible to you")
    return sweep


def sweep_document(sweep: Sweep) -> documents.Sweep:
    """Return the document of one of `sweeps_visible`."""
    return documents.Sweep(**_fields(sweep))


def _fields(sweep: Sweep) -> dict[str, Any]:
    same = ("name", "preset", "overrides", "axes", "method", "separate_processes", "created_at")
    return {
        "id": sweep.pk,
        "project": sweep.project.slug,
        "owner": sweep.owner.username if sweep.owner else "",
        "runs": getattr(sweep, "total", 0),
        "ended": getattr(sweep, "over", 0),
        "active": getattr(sweep, "active", 0),
        "links": {"page": reverse("experiments:sweep", args=[sweep.pk])},
    } | {name: getattr(sweep, name) for name in same}


def sweep_detail(user: Person, sweep: Sweep, sort: str = "", metric: str = "") -> documents.SweepDetail:
    """Return a sweep with its runs, and with its points by `metric`, or by the default metric of its runs."""
    rows = sweep_rows(user, sweep, sort)
    metric = metric or outcome_key(row.headline for row in rows)
    return documents.SweepDetail(
        **_fields(sweep), metric=metric, results=rows, points=sweep_points(rows, metric)
    )


def sweep_rows(user: Person, sweep: Sweep, sort: str = "") -> list[documents.SweepRun]:
    """Return its runs with their values: in launch order, or sorted by an axis or a headline metric.

    sort: a name, with a minus sign for descending order; missing values come last.
    """
    return rows_sorted(
        [
            documents.SweepRun(
                **run_summary(run), values={path: _value(run.config, path) for path in sweep.axes}
            )
            for run in runs_visible(user).filter(sweep=sweep).order_by("created_at", "pk")
        ],
        sort,
    )


def _value(config: Mapping[str, Any], path: str) -> Any:
    """Return a field of a config; of several (`*`), the first."""
    return value_at(config, next(iter(expand_path(path, config)), path))


def rows_sorted(rows: list[documents.SweepRun], sort: str) -> list[documents.SweepRun]:
    """Return the runs as `sweep_rows` sorts them: numbers, then words, then missing values."""
    name, down = sort.removeprefix("-"), sort.startswith("-")
    if not name:
        return rows
    values = [row.values[name] if name in row.values else row.headline.get(name) for row in rows]
    pairs = list(zip(values, rows, strict=True))
    numbers = [pair for pair in pairs if isinstance(pair[0], int | float)]
    words = [(spell(value), row) for value, row in pairs if not isinstance(value, int | float | None)]
    missing = [row for value, row in pairs if value is None]
    ranked = [sorted(some, key=lambda pair: pair[0], reverse=down) for some in (numbers, words)]
    return [*(row for some in ranked for _, row in some), *missing]


def sweep_points(rows: Sequence[documents.SweepRun], metric: str) -> list[documents.SweepPoint]:
    """Return the groups of runs that differ only by seed, with mean and sd of `metric`; best mean first."""
    grouped: dict[str, list[documents.SweepRun]] = {}
    for row in rows:
        grouped.setdefault(repr(_without_seed(row.values)), []).append(row)
    points = [_point(same, metric) for same in grouped.values()]
    return sorted(points, key=lambda point: (point.mean is None, -(point.mean or 0.0)))


def _without_seed(point: Mapping[str, Any]) -> dict[str, Any]:
    return {path: value for path, value in point.items() if path != SEED}


def _point(rows: list[documents.SweepRun], metric: str) -> documents.SweepPoint:
    outcomes = [row.headline.get(metric) for row in rows]
    numbers = [value for value in outcomes if isinstance(value, int | float)]
    return documents.SweepPoint(
        values=_without_seed(rows[0].values),
        runs=[row.id for row in rows],
        n=len(numbers),
        mean=fmean(numbers) if numbers else None,
        sd=stdev(numbers) if len(numbers) > 1 else None,
    )
