"""Sweeps: runs that are launched together, one for each combination of some fields' values."""

from datetime import datetime
from typing import Any, ClassVar

from pydantic import Field

from troupe_client.documents.base import Body, Document
from troupe_client.documents.launches import Overrides, Provenance
from troupe_client.documents.runs import RunSummary

Axes = dict[str, list[Any]]
"""Dotted field path -> values; a path may have `*` parts."""


class SweepBody(Body):
    """A sweep to launch or to preview."""

    preset: str
    overrides: Overrides = Field({}, description="Shared by all runs.")
    axes: Axes = Field({}, description="Varied fields: path to a list of values.")
    seeds: list[Any] = []
    method: str = Field(
        "grid", description="grid: every combination; list: the n-th values of all axes together."
    )
    separate_processes: bool = Field(
        False,
        strict=True,
        description="Train every run in a process of its own, even if its seeds can share one.",
    )
    name: str = ""
    project: str = Field("", description="Slug; default: the caller's oldest project.")
    tags: list[str] = []
    provenance: Provenance = {}


class SweepCost(Document):
    """Upper bounds over all runs; devices are those of the largest single run."""

    runs: int
    iterations: int
    answers: int = Field(
        description="Sampled training responses at most; for small networks, environment steps."
    )
    tokens: int = Field(description="Tokens of those responses at most, prompts not counted.")
    cpus: float
    gpus: float


class SweepPlan(Document):
    """The runs that a sweep would launch."""

    preset: str
    overrides: Overrides
    axes: Axes
    method: str
    separate_processes: bool
    seeds_share_processes: bool = Field(
        False, description="Whether runs that differ in their seed only may share a process."
    )
    points: list[dict[str, Any]] = Field([], description="Of each run: axis to value.")
    errors: dict[str, str] = Field({}, description="By field path.")
    cost: SweepCost | None = None


class Sweep(Document):
    """A sweep with counts of its runs."""

    columns: ClassVar = {
        "sweep": "id",
        "name": "name",
        "preset": "preset",
        "runs": "runs",
        "ended": "ended",
        "varies": "axes",
    }

    id: int
    name: str
    project: str = Field(description="Slug of the project.")
    owner: str
    preset: str
    overrides: Overrides
    axes: Axes
    method: str
    separate_processes: bool
    created_at: datetime
    runs: int
    ended: int
    active: int
    links: dict[str, str]


class SweepRun(RunSummary):
    """A run of a sweep."""

    values: dict[str, Any] = Field(description="Axis to value.")


class SweepPoint(Document):
    """Runs that differ by their seed only."""

    values: dict[str, Any] = Field(description="Axis to value.")
    runs: list[str]
    n: int = Field(description="Number of runs with the metric.")
    mean: float | None
    sd: float | None


class SweepDetail(Sweep):
    """A sweep with its runs, and its points, best first."""

    metric: str = Field(description="Metric by which points are ranked.")
    results: list[SweepRun]
    points: list[SweepPoint]
