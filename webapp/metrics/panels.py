"""Panels that people build: charts of chosen metrics, in the address of a page and in saved views; next to the runs table, on a run's
curves and on reports.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from django.urls import reverse
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    field_validator,
)

from training_core.errors import ConfigError
from webapp.metrics.expressions import expression_read, is_plain
from webapp.metrics.models import Series
from webapp.metrics.names import by_importance, without_split

MOST_PANELS = 24
MOST_METRICS = 8
"""Maximum number of metrics in one panel."""
LONGEST = 8000
Text = Annotated[str, StringConstraints(max_length=200)]


class PanelDefinition(BaseModel):
    """One panel. Defaults are omitted from addresses."""

    model_config = ConfigDict(extra="forbid")

    metrics: list[Text] = Field(default=[], max_length=MOST_METRICS)
    """Metrics, or expressions of metrics."""
    pattern: Text = ""
    """A regular expression over the names of metrics, in addition to `metrics`."""
    title: Text = ""
    x: Text = ""
    """Axis, metric or expression; empty: the axis of the page."""
    logx: bool = False
    logy: bool = False
    smooth: float | None = Field(default=None, ge=0, lt=1)
    """Weight of previous values; None: that of the page."""
    width: Literal[1, 2, 3] = 1
    """In columns."""
    height: Literal["s", "m", "l"] = "s"
    pinned: bool = False
    """Whether it is above the panels that are not pinned."""


_PANELS = TypeAdapter(Annotated[list[PanelDefinition], Field(max_length=MOST_PANELS)])
DEFAULT = (
    PanelDefinition(metrics=["eval/success"]),
    PanelDefinition(metrics=["train/return"]),
    PanelDefinition(metrics=["eval/return"]),
    PanelDefinition(pattern="^policy/[^/]+/entropy$", title="entropy by policy"),
    PanelDefinition(pattern="^policy/[^/]+/kl$", title="KL by policy"),
    PanelDefinition(metrics=["rollout/tokens_per_second"]),
)
"""Panels of a workspace without panels of its own; those without a metric of its runs are left out."""


def panels_read(text: str) -> list[PanelDefinition]:
    """Parse the panels of an address, a JSON list. Raises ConfigError."""
    if len(text) > LONGEST:
        raise ConfigError({"panels": f"at most {LONGEST} characters, use fewer panels"})
    try:
        panels = _PANELS.validate_json(text or "[]")
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(map(str, first["loc"]))
        raise ConfigError({"panels": f"{first['msg']} ({path})" if path else first["msg"]}) from error
    for panel in panels:
        for metric in panel.metrics:
            expression_read(metric, "panels")
    return panels


AXES = {
    "step": "step",
    "time": "time",
    "tokens": "tokens",
    "episodes": "episodes",
    "env_steps": "environment steps",
}
"""Axes of charts with their labels."""
PROGRESS = {"tokens": "progress/tokens", "episodes": "progress/episodes", "env_steps": "progress/env_steps"}
"""Axes that are totals of a run, and their metrics."""
BANDS = [
    ("sd", "standard deviation"),
    ("ci", "95% bootstrap interval"),
    ("minmax", "minimum to maximum"),
    ("none", "none"),
]


class ChartSettings(BaseModel):
    """Which runs are drawn, how they are grouped, and the panels. The browser reads x, smooth, logx and logy from the address."""

    model_config = ConfigDict(str_strip_whitespace=True)

    charts: bool = False
    shown: str = Field("", max_length=4000)
    by: str = Field("", max_length=200)
    band: Literal["", "sd", "ci", "minmax", "none"] = ""
    panels: str = ""
    x: str = Field("", max_length=200)
    smooth: float | None = Field(None, ge=0, le=0.99, allow_inf_nan=False)
    logx: bool = False
    logy: bool = False

    @field_validator("panels")
    @classmethod
    def _panels(cls, text: str) -> str:
        try:
            panels_read(text)
        except ConfigError as error:
            raise ValueError(error.fields["panels"]) from error
        return text

    def values(self) -> dict[str, str]:
        """Return the parameters as text."""
        values = {name: value for name, value in self if value not in ("", None, False)}
        return {name: "1" if value is True else str(value) for name, value in values.items()}


WORDS = tuple(ChartSettings.model_fields)
"""Names of the parameters."""


MOST_READ = 60
"""Maximum number of runs whose metrics are offered."""
MOST_KEYS = 5000
"""Maximum number of metrics that a board offers."""


def board_data(
    run_ids: Sequence[str],
    shown: Sequence[str],
    default: Sequence[PanelDefinition] = DEFAULT,
    keys: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return the data of a board of panels. run_ids: runs whose metrics are offered; shown: those drawn if the address names none.

    keys: the metrics of these runs, if the page has read them. At most MOST_KEYS are offered. Runs that have no metric of `default`
    have panels of the most important names of those shown.
    """
    if keys is None:
        series = Series.objects.filter(run__in=run_ids[:MOST_READ])
        keys = list(series.order_by("key").values_list("key", flat=True).distinct()[:MOST_KEYS])
    keys = keys[:MOST_KEYS]
    standard = [panel for panel in default if _has(panel, keys)]
    if default and not standard:
        drawn = Series.objects.filter(run__in=shown).order_by("key").values_list("key", flat=True).distinct()
        standard = panels_named(drawn[:MOST_KEYS] if shown else keys)
    return {
        "shown": list(shown),
        "keys": keys,
        "default": [panel.model_dump(exclude_defaults=True) for panel in standard],
        "source": reverse("api:compare-curves"),
        "csv": reverse("compare:csv"),
        "compare": reverse("compare:page"),
        "check": reverse("api:expression-check"),
        "mostPanels": MOST_PANELS,
        "mostMetrics": MOST_METRICS,
    }


def panels_named(keys: Iterable[str]) -> list[PanelDefinition]:
    """Return panels of the most important metrics of custom programs; the splits of one metric (loss, eval/loss) share a panel."""
    groups: dict[str, list[str]] = {}
    for key in by_importance(keys):
        if is_plain(key):
            groups.setdefault(without_split(key), []).append(key)
    return [
        PanelDefinition(metrics=group[:MOST_METRICS], title=name if len(group) > 1 else "")
        for name, group in list(groups.items())[: len(DEFAULT)]
    ]


def _has(panel: PanelDefinition, keys: Sequence[str]) -> bool:
    return any(key in panel.metrics or (panel.pattern and re.search(panel.pattern, key)) for key in keys)
