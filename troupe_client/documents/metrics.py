"""Metrics of runs: names, series to draw, expressions."""

from typing import Annotated, Any, ClassVar

from pydantic import Field, WithJsonSchema

from troupe_client.documents.base import Document, omitted

Numbers = Annotated[
    list[Any],
    WithJsonSchema({"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "string"}]}}),
]
"""Numbers; NaN, Infinity and -Infinity as strings."""


class Metric(Document):
    """A metric of a run."""

    columns: ClassVar = {
        "metric": "key",
        "points": "count",
        "step": "last_step",
        "value": "last_value",
    }

    key: str
    count: int = Field(description="Number of points.")
    last_step: int
    last_value: float | str = Field(description="NaN and infinities as strings.")
    last_time: float = Field(description="Seconds since the epoch.")


class SeriesBuckets(Document):
    """All points of a long series in buckets of equally many points."""

    steps: list[int] = Field(description="Step of the last point of each.")
    times: list[float]
    means: list[float]
    lows: list[float]
    highs: list[float]
    counts: list[int]


class SeriesPoints(Document):
    """Points of a metric by step, then attempt: columns of equal length."""

    steps: list[int]
    values: Numbers
    times: list[float] = Field(description="Seconds since the epoch.")
    attempts: list[int]
    buckets: SeriesBuckets | None = omitted(
        "All points in buckets, if the series has more points than requested."
    )


class RunSeries(Document):
    """Metrics of a run: the requested series, or the names without `keys`."""

    cursor: int = Field(description="Number of stored events.")
    series: dict[str, SeriesPoints] = {}
    keys: list[Metric] = []


class ExpressionCheck(Document):
    """Whether a text is a metric or an expression of metrics."""

    metrics: list[str] = Field(description="Its metrics.")
    error: str = Field(description="Empty for a valid one.")
