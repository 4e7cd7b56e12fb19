"""Media of runs: histograms, images, tables and texts by name and step."""

from typing import ClassVar

from pydantic import Field

from troupe_client.documents.base import Document


class MediaName(Document):
    """The values of one name and kind."""

    columns: ClassVar = {
        "name": "name",
        "kind": "kind",
        "values": "values",
        "first step": "first_step",
        "last step": "last_step",
    }

    name: str
    kind: str = Field(description="histogram, image, table or text.")
    values: int = Field(description="Number of values.")
    first_step: int
    last_step: int


class MediaValue(Document):
    """A value, without its content."""

    id: int
    name: str
    kind: str = Field(description="histogram, image, table or text.")
    step: int
    attempt: int
    time: float = Field(description="Seconds since the epoch; equal for the values of one call.")
    position: int = Field(description="Among the values of this name and step.")
    caption: str
    media_type: str = Field(description="Of an image, such as image/png.")
    width: int
    height: int = Field(description="Pixels of an image; 0 if unknown.")
    size: int = Field(description="Bytes.")


class RunMedia(Document):
    """Names of a run's media, or the values of one name."""

    results: list[MediaName] | list[MediaValue]
    next: int | None = Field(None, description="`after` of the following values.")


class HeatMap(Document):
    """Histograms over S steps on a common grid of B bins."""

    steps: list[int] = Field(description="(S).")
    edges: list[float] = Field(description="(B + 1).")
    shares: list[list[float]] = Field(description="(S, B): the share of a step's values in each bin.")
    counts: list[float] = Field(description="(S).")
