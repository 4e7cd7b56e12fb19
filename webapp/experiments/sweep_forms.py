"""Parsing of a sweep's form and API body into a plan."""

from collections.abc import Mapping
from typing import Any

from django.http import QueryDict

from training_core.config.files import parse_overrides, preset_names
from training_core.config.sweeps import SEED, parse_axes, parse_values
from training_core.errors import ConfigError
from webapp.experiments.forms import FIRST, query_overrides
from webapp.experiments.sweep_planning import SweepPlan, plan_make

ROWS = 3
"""Number of empty rows in a new form."""


def plan_from_post(post: QueryDict) -> SweepPlan:
    """Parse the form: rows of `field` and `values`, `seeds`, shared changes as key=value lines. Never raises ConfigError."""
    preset = post.get("preset", "")
    axes: dict[str, list[Any]] = {}
    errors: dict[str, str] = {}
    for path, text in zip(post.getlist("field"), post.getlist("values"), strict=False):
        path = path.strip()
        if not path and not text.strip():
            continue
        try:
            axes |= _row(path, text, axes)
        except ConfigError as error:
            errors |= error.fields
    try:
        shared = shared_overrides(post.get("shared", ""))
        seeds = post.get("seeds", "").strip()
        axes |= {SEED: parse_values(seeds)} if seeds else {}
    except ConfigError as error:
        shared, errors = {}, errors | {path or SEED: text for path, text in error.fields.items()}
    if errors:
        return SweepPlan(preset, shared, axes, errors=errors)
    separate = "separate_processes" in post
    return plan_make(preset, shared, axes, post.get("method", "grid"), separate_processes=separate)


def _row(path: str, text: str, axes: Mapping[str, Any]) -> dict[str, list[Any]]:
    if not path:
        raise ConfigError({"axes": f"name the field that takes {text.strip()[:40]}"})
    if path in axes:
        raise ConfigError({path: "is in two rows; put all values in one"})
    if path == SEED:
        raise ConfigError({path: "has its own input: Seeds"})
    return parse_axes([f"{path}={text}"])


def shared_overrides(text: str) -> dict[str, Any]:
    """Parse key=value lines. Raises ConfigError."""
    return parse_overrides([line.strip() for line in text.splitlines() if line.strip()])


def form_values(query: Mapping[str, str]) -> dict[str, Any]:
    """Return the initial values of the form: ?preset=NAME&algorithm.clip_low=0.3 (shared by all runs)."""
    preset = query.get("preset", "")
    shared = query_overrides(query)
    seed = shared.pop(SEED, None)
    return {
        "preset": preset if preset in preset_names() else FIRST,
        "shared": "\n".join(f"{path}={query[path]}" for path in shared),
        "rows": [("", "")] * ROWS,
        "seeds": "0, 1, 2" if seed is None else str(seed),
        "method": "grid",
        "separate_processes": "",
        "name": "",
    }


def posted_values(post: QueryDict) -> dict[str, Any]:
    """Return the posted values, to show them again after an error."""
    rows = list(zip(post.getlist("field"), post.getlist("values"), strict=False))
    names = ("preset", "shared", "seeds", "method", "separate_processes", "name")
    return {name: post.get(name, "") for name in names} | {
        "rows": rows + [("", "")] * max(0, ROWS - len(rows))
    }


def plan_from_body(body: Mapping[str, Any]) -> SweepPlan:
    """Parse the API body: {"preset", "overrides", "axes": {field: [values]}, "seeds": [...], "method", "separate_processes"}.

    Raises ConfigError.
    """
    preset, overrides = body.get("preset"), body.get("overrides", {})
    axes, seeds = body.get("axes", {}), body.get("seeds", [])
    separate = body.get("separate_processes", False)
    if not isinstance(preset, str):
        raise ConfigError({"preset": "name a preset"})
    if not isinstance(overrides, dict):
        raise ConfigError({"overrides": "give an object: field path to value"})
    if not isinstance(axes, dict) or not all(isinstance(values, list) for values in axes.values()):
        raise ConfigError({"axes": "give an object: field path to a list of values"})
    if not isinstance(seeds, list):
        raise ConfigError({"seeds": "give a list of integers"})
    if seeds and SEED in axes:
        raise ConfigError({"seeds": f"give either seeds or an axis {SEED}"})
    if not isinstance(separate, bool):
        raise ConfigError({"separate_processes": "give true or false"})
    return plan_make(
        preset,
        overrides,
        {**axes, **({SEED: seeds} if seeds else {})},
        str(body.get("method", "grid")),
        separate_processes=separate,
    )


def plan_document(plan: SweepPlan) -> dict[str, Any]:
    """Return a plan as JSON."""
    cost = plan.cost
    return {
        "preset": plan.preset,
        "overrides": plan.overrides,
        "axes": plan.axes,
        "method": plan.method,
        "separate_processes": plan.separate_processes,
        "seeds_share_processes": plan.shares,
        "points": plan.points,
        "errors": plan.errors,
        "cost": vars(cost) if cost else None,
    }
