"""Descriptions of a run's base models, and their success before training."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from webapp.common.formats import number
from webapp.common.tones import policy_tones

Columns = Mapping[str, Any]


@dataclass(frozen=True)
class BaseModel:
    """The initial model of one policy."""

    policy: str
    tone: int
    name: str
    said: str
    """A description in one sentence."""
    facts: list[tuple[str, str]]


def base_models(config: Mapping[str, Any], facts: Mapping[str, Any]) -> list[BaseModel]:
    """Return one per policy, in the order of the config; based on the config until the run has reported facts.

    Small networks have none.
    """
    reports = _object(facts.get("base_models"))
    tones = policy_tones(config)
    return [
        _base_model(policy, tones.get(policy, 0), settings, _object(reports.get(policy)))
        for policy, settings in config["policies"].items()
        if policy in tones and settings.get("model")  # a custom program names none
    ]


def _base_model(policy: str, tone: int, settings: Mapping[str, Any], report: Mapping[str, Any]) -> BaseModel:
    rows = [
        ("architecture", report.get("architecture")),
        ("parameters", _count(report.get("parameters"))),
        ("vocabulary", _count(report.get("vocabulary"), " words")),
        ("demonstrations", _count(report.get("demonstrations"))),
        ("noise", _share(report.get("demonstration_noise"))),
        ("final loss", _nats(report.get("loss"))),
    ]
    return BaseModel(
        policy,
        tone,
        settings["model"],
        _said(settings["model"], report),
        [(name, str(value)) for name, value in rows if value],
    )


def _said(model: str, report: Mapping[str, Any]) -> str:
    if model != "tiny":
        return f"The published model {model}."
    if not report:
        return "A small model that Troupe warm-starts for this environment before training."
    noise = _share(report.get("demonstration_noise"))
    wrong = f" of which {noise} were noise" if noise else ""
    return (
        f"A small model with {_count(report.get('parameters')) or 'few'} parameters, created by Troupe: it was trained to imitate "
        f"{_count(report.get('demonstrations')) or 'some'} demonstrations{wrong}, without rewards."
    )


def _object(value: Any) -> Mapping[str, Any]:
    """Return the value if it is an object: custom programs may report anything."""
    return value if isinstance(value, dict) else {}


def _nats(value: Any) -> str | None:
    return f"{number(value)} nats per token" if isinstance(value, int | float) and value else None


def _count(value: Any, unit: str = "") -> str | None:
    return f"{value:,}{unit}" if isinstance(value, int) else None


def _share(value: Any) -> str | None:
    return f"{100 * value:.0f}%" if isinstance(value, int | float) else None


def before_training(series: Mapping[str, Columns]) -> dict[str, float | str | None]:
    """Return greedy and sampled success at the first evaluation, if it preceded all updates (step 0)."""
    return {
        name: _first(series.get(key))
        for name, key in (("greedy", "eval/success"), ("sampled", "eval_sampled/success"))
    }


def _first(columns: Columns | None) -> float | str | None:
    return columns["values"][0] if columns and columns["steps"] and columns["steps"][0] == 0 else None
