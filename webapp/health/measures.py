"""Each rule of a run with its value, its threshold and how near it came, so that a healthy run is seen to be healthy."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from pydantic import ValidationError

from training_core.config.effects import Place, rule_of
from training_core.config.files import parse_config
from training_core.config.health import Rule as Settings
from training_core.config.health import RunHealth
from training_core.errors import ConfigError
from troupe_client.documents import health as documents
from webapp.health.inputs import Found
from webapp.health.models import Checked, Finding
from webapp.health.rules import RULES
from webapp.runs.models import Run

MOST = 1e6
"""The largest excess that is stored: JSON has no infinity."""
Kept = dict[str, dict[str, Any]]


def measures_kept(before: Mapping[str, Any], seen: Sequence[Sequence[tuple[str, Found]]]) -> Kept:
    """Return the stored measurements (`Checked.measures`) after further steps: of each rule the largest one of the last step
    that has one, and the one that came nearest to its bound.
    """
    stored: Kept = {rule: dict(row) for rule, row in before.items()}
    for measurements in seen:
        largest: dict[str, Found] = {}
        for rule, measured in measurements:
            if rule not in largest or measured.excess > largest[rule].excess:
                largest[rule] = measured
        for rule, measured in largest.items():
            now, nearest = _facts(measured), stored.get(rule, {}).get("nearest")
            if nearest is None or now["excess"] > nearest["excess"]:
                nearest = now
            stored[rule] = now | {"nearest": nearest}
    return stored


def _facts(measured: Found) -> dict[str, Any]:
    numbers = {"value": float(measured.value), "bound": float(measured.bound)}
    excess = min(max(measured.excess, 0.0), MOST)
    finite = {name: value if isfinite(value) else None for name, value in numbers.items()}
    return finite | {
        "key": measured.key, "excess": excess, "step": measured.last, "note": measured.note, "below": measured.below,
    }  # fmt: skip


def rules_read(run: Run, settings: RunHealth) -> list[documents.HealthRule]:
    """Return every rule of a run: those with open findings first, then by how near they came to their thresholds."""
    checked = Checked.objects.filter(run=run).first()
    stored = checked.measures if checked else {}
    levels = dict(
        run.findings.filter(state=Finding.State.OPEN).order_by("-severity").values_list("rule", "severity")
    )
    unused = _unused(run, settings)
    rows = [
        _row(name, rule, stored.get(name, {}), levels.get(name, ""), unused.get(name, ""))
        for name, rule in settings.rules().items()
    ]
    order = {
        "critical": 0,
        "warning": 1,
        "healthy": 2,
        "not counted": 3,
        "no value yet": 4,
        "does not apply": 5,
    }
    return sorted(rows, key=lambda row: (order[row.state], -(row.nearest or 0.0)))


def _row(
    name: str, settings: Settings, stored: Mapping[str, Any], level: str, unused: str
) -> documents.HealthRule:
    rule, nearest = RULES[name], stored.get("nearest", {})
    state, why = level or "healthy", stored.get("note", "")
    if unused and not level:
        state, why = "does not apply", unused
    elif not stored and not level:
        state, why = "no value yet", f"needs {rule.needs.format(**settings.model_dump())}"
    elif why and not level:
        state = "not counted"
    return documents.HealthRule(
        rule=name,
        state=state,
        why=why,
        measured=rule.measured,
        key=stored.get("key", ""),
        value=stored.get("value"),
        threshold=stored.get("bound"),
        fires_below=stored.get("below", False),
        nearest=nearest.get("excess"),
        nearest_value=nearest.get("value"),
        nearest_step=nearest.get("step"),
        nearest_key=nearest.get("key", ""),
        action=settings.action,
    )


def _unused(run: Run, settings: RunHealth) -> dict[str, str]:
    """Return why rules cannot find anything under the run's config; nothing for a config of another program or version."""
    try:
        config = parse_config(run.config)
    except (ConfigError, ValidationError, KeyError, TypeError):
        return {}
    at = Place(config, settings, "health")
    rules = {name: rule_of(type(settings), name) for name in settings.rules()}
    return {name: why for name, rule in rules.items() if rule and (why := rule(at))}
