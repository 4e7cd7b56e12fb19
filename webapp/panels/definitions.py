"""Panels that people build: charts of chosen metrics, in the address of a page and in saved views."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from training_core.errors import ConfigError
from webapp.metrics.expressions import expression_read

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
        raise ConfigError({"panels": f"{path}: {first['msg']}" if path else first["msg"]}) from error
    for panel in panels:
        for metric in panel.metrics:
            expression_read(metric, "panels")
    return panels
