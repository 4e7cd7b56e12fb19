"""Comparisons of groups of runs: figures, curves, configs, tables, episodes of the same tasks."""

from typing import Any, ClassVar

from pydantic import Field

from troupe_client.documents.base import Document

Row = list[float | None]
Tone = int | str
"""Colour: a number of the palette, or accent."""


class ComparedGroup(Document):
    """A group of runs by one value of a metric. Intervals need two runs."""

    columns: ClassVar = {
        "group": "name",
        "n": "n",
        "mean": "mean",
        "sd": "sd",
        "IQM": "iqm",
        "95% interval": "interval",
        "at step": "last_step",
    }

    group: str
    name: str
    tone: Tone
    runs: list[str]
    n: int
    first_step: int
    last_step: int = Field(description="Range of the steps of its values.")
    mean: float
    sd: float | None = Field(description="Of the sample; null for one run.")
    iqm: float = Field(description="Interquartile mean.")
    interval: list[float] | None = Field(
        description="95% bootstrap interval of the interquartile mean; null for one run."
    )


class ComparedPair(Document):
    """The probability that a run of one group is better than one of another."""

    better: str
    than: str
    probability: float
    interval: list[float] | None


class Comparison(Document):
    """Groups of runs by one value of a metric."""

    key: str
    label: str
    by: str
    at: str
    step: int | None = Field(description="Step of the values; null for the last ones.")
    groups: list[ComparedGroup]
    omitted: int = Field(description="Number of groups that are not compared.")
    top: str
    ranked: bool = Field(description="Whether the groups are those with the highest or lowest mean.")
    pairs: list[ComparedPair]
    without: list[str] = Field(description="Runs without a finite value.")


class CurveRun(Document):
    """A run of a group."""

    id: str
    name: str


class CurveGroup(Document):
    """The curve of a group; every list has a value for each point of the axis, null where there are not enough runs."""

    group: str
    label: str
    tone: Tone
    runs: list[CurveRun] = Field(description="The first ones of very many.")
    n: int
    mean: Row
    raw: Row | None = Field(description="The mean before smoothing.")
    low: Row | None
    high: Row | None = Field(description="The band.")
    counts: list[int] = Field(description="Number of runs.")
    lines: list[Row] | None = Field(description="Each run, for band=runs.")


class ComparedCurves(Document):
    """Curves of groups of runs over one axis."""

    key: str
    label: str
    x: str
    axis: list[float]
    spans: bool = Field(description="Whether a point of the axis stands for a range.")
    groups: list[CurveGroup]
    omitted: int = Field(description="Number of groups that are not drawn.")
    without: list[str] = Field(description="Runs without a point on this axis.")
    left_out: int = Field(description="Number of points that are not finite.")


class ComparedConfigGroup(Document):
    """A group of runs."""

    group: str
    label: str
    tone: Tone
    n: int


class ComparedConfigCell(Document):
    """The values of a field in a group."""

    values: list[Any] = Field(description="Different ones.")
    more: int = Field(description="Number of omitted values.")
    absent: bool = Field(description="Whether the field is missing in some runs.")


class ComparedConfigField(Document):
    """A field of the configs, or below packages, code, data and machine what was recorded."""

    path: str
    same: bool = Field(description="Whether it is equal in all runs.")
    cells: list[ComparedConfigCell] = Field(description="One for each group.")


class ComparedConfigs(Document):
    """Fields in which the configs of groups of runs differ."""

    groups: list[ComparedConfigGroup]
    same: int = Field(description="Number of fields that are equal in all runs.")
    fields_: list[ComparedConfigField] = Field(alias="fields")


class TableAxis(Document):
    """A config field or a metric; positions are from 0 to 1."""

    name: str
    kind: str = Field(description="number or category.")
    log: bool
    low: float
    high: float
    categories: list[str]
    brush: list[Any] | None = Field(description="The selected range or categories.")


class TableRow(Document):
    """A run; values and positions in the order of the axes, null for missing ones."""

    run: str
    name: str
    group: str
    tone: Tone
    values: list[Any]
    places: list[float | None]
    kept: bool = Field(description="Whether the brushes select it.")


class ComparedTable(Document):
    """Runs by config fields and metrics."""

    axes: list[TableAxis]
    rows: list[TableRow]
    kept: list[str] = Field(description="Runs that the brushes select.")


class TextDifference(Document):
    """A part of a text that is equal to the first run's, or differs from it."""

    op: str = Field(description="equal, insert or delete.")
    text: str


class PlayTurn(Document):
    """A turn of an episode."""

    role: str
    text: str
    parts: list[TextDifference] = Field(description="Differences from the first run's text.")


class Play(Document):
    """An episode of a run."""

    run: str
    id: int
    iteration: int
    outcome: str
    success: bool | None
    failed: bool
    return_: float | str = Field(alias="return")
    kept: bool = Field(description="Whether its texts are stored.")
    same_prompt: bool = Field(description="Whether its first prompt is that of the first run.")
    left_out: int = Field(description="Number of turns that are not listed.")
    turns: list[PlayTurn]


class TaskPlays(Document):
    """A task with one episode of each run, null for a run that has not played it."""

    task: str
    title: str
    plays: list[Play | None]


class ComparedPlays(Document):
    """Episodes of several runs on the same tasks."""

    more: bool = Field(description="Whether there are further tasks.")
    iteration: int | None = Field(description="Last iteration of the episodes; null for the last ones.")
    tasks: list[TaskPlays]
