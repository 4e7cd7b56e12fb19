"""Quotas: limits of a project, and what it uses."""

from typing import Annotated

from pydantic import Field

from troupe_client.documents.base import Body, Count, Document

Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class QuotaUsage(Document):
    """What a project uses."""

    runs: int = Field(description="Concurrent runs.")
    cpus: float = Field(description="Concurrently used CPU cores.")
    gpus: float = Field(description="Concurrently used GPUs.")
    points: int = Field(description="Stored points of curves.")
    gigabytes: float = Field(description="10^9 bytes of transcripts and checkpoints.")


class QuotaLimits(Document):
    """The limits of a project, by the names of QuotaUsage; null: no limit."""

    runs: int | None
    cpus: float | None
    gpus: float | None
    points: int | None
    gigabytes: float | None


class Quota(Document):
    """Limits and usage of a project."""

    project: str = Field(description="Slug of the project.")
    limits: QuotaLimits
    used: QuotaUsage
    locked: bool = Field(description="Whether only administrators may change the limits.")


class QuotaBody(Body):
    """Limits to change; null removes a limit, missing fields are unchanged."""

    runs: Count | None = Field(None, description="Concurrent runs.")
    cpus: Amount | None = Field(None, description="Concurrently used CPU cores.")
    gpus: Amount | None = Field(None, description="Concurrently used GPUs.")
    points: Count | None = Field(None, description="Stored points of curves.")
    gigabytes: Amount | None = Field(None, description="10^9 bytes of transcripts and checkpoints.")
