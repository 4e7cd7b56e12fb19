"""The plan of a sweep: its runs, each validated by the config's schema, and their cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from training_core.config.files import apply_overrides, read_preset
from training_core.config.foreign import NO_FIELD
from training_core.config.kinds import AnyConfig
from training_core.config.sweeps import SEED, Method, combinations, count, expand_path
from training_core.errors import ConfigError
from webapp.experiments.fields import spell
from webapp.runs.configs import check_storable, parse_permitted
from workers.sizing.demand import demand
from workers.sizing.estimates import volume


@dataclass(frozen=True)
class Cost:
    """Upper bounds over all runs; devices are those of the largest single run."""

    runs: int
    iterations: int
    answers: int
    """Maximum number of sampled training responses; for small networks, environment steps."""
    tokens: int
    """Maximum number of tokens of those responses, prompts not counted."""
    cpus: float
    gpus: float


def cost_of(configs: Sequence[AnyConfig]) -> Cost:
    """Return the cost of all configs together."""
    demands = [demand(config) for config in configs]
    return Cost(
        runs=len(configs),
        iterations=sum(config.run.iterations for config in configs),
        answers=sum(config.run.iterations * volume(config).answers for config in configs),
        tokens=sum(volume(config).tokens_total for config in configs),
        cpus=max((need.cpus for need in demands), default=0.0),
        gpus=max((need.gpus for need in demands), default=0.0),
    )


MOST_RUNS = 200
MOST_AXES = 12
MOST_TOLD = 5
"""Maximum number of combinations with reported errors."""
METHODS = ("grid", "list")


@dataclass(frozen=True)
class SweepPlan:
    """The runs that a sweep would launch."""

    preset: str
    overrides: dict[str, Any]
    """Overrides shared by all runs."""
    axes: dict[str, list[Any]]
    """Varied fields; a path may have `*` parts."""
    method: Method = "grid"
    separate_processes: bool = False
    """Whether every run gets a process of its own, even if its seeds can share one."""
    points: list[dict[str, Any]] = field(default_factory=list)
    """Per run: axis -> value."""
    configs: list[AnyConfig] = field(default_factory=list)
    cost: Cost | None = None
    errors: dict[str, str] = field(default_factory=dict)
    """Errors by field path; the launch is rejected while there are any."""

    @property
    def shares(self) -> bool:
        """Whether runs that differ in their seed only may share a process."""
        several = len(self.axes.get(SEED, ())) > 1
        return several and not self.separate_processes and any(not one.separate_seeds for one in self.configs)

    def settings(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Return all overrides of one run, with `*` expanded."""
        return self.overrides | spread(point, _whole(self.preset, self.overrides))


def plan_make(
    preset: str,
    overrides: Mapping[str, Any],
    axes: Mapping[str, Sequence[Any]],
    method: str = "grid",
    *,
    separate_processes: bool = False,
) -> SweepPlan:
    """Validate every value, then every combination. Errors are in the plan's `errors`, by field path."""
    listed = {path: list(values) for path, values in axes.items()}
    plan = SweepPlan(preset, dict(overrides), listed, cast(Method, method), separate_processes)
    try:
        _checked(plan)
        points = list(combinations(listed, plan.method))
        configs = _configs(plan, points)
    except ConfigError as error:
        return replace(plan, errors=error.fields)
    return replace(plan, points=points, configs=configs, cost=cost_of(configs))


def spread(point: Mapping[str, Any], tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run's values by the paths of single fields."""
    return {single: value for path, value in point.items() for single in expand_path(path, tree)}


def column_styles(axes: Mapping[str, Sequence[Any]]) -> dict[str, str]:
    """Return the CSS class of the column of each path: "num" if all values are numbers, otherwise empty."""
    numbers = {
        path: all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
        for path, values in axes.items()
    }
    return {path: "num" if right else "" for path, right in numbers.items()}


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


def _checked(plan: SweepPlan) -> None:
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
    if (runs := count(plan.axes, plan.method)) > MOST_RUNS:
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
            name = point_name({path: value for path, value in point.items() if path != SEED}, names)
            for path, text in error.fields.items():
                if len(wrong) < MOST_TOLD:
                    wrong.setdefault(path, f"with {name}: {text}")
    if wrong:
        raise ConfigError(wrong)
    return configs


def _whole(preset: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the shared config, with all defaults. Raises ConfigError."""
    return parse_permitted(apply_overrides(read_preset(preset), overrides)).model_dump(mode="json")
