"""Share links: read access to one object, without an account."""

from datetime import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from troupe_client.documents.base import Body, Document

DAYS = 30
LONGEST = 3650
"""Days."""
Days = Annotated[int, Field(ge=1, le=LONGEST)]


class Share(Document):
    """A link, without its secret, which is not stored."""

    columns: ClassVar = {
        "link": "id",
        "kind": "kind",
        "target": "target",
        "works": "live",
        "until": "expires_at",
        "opened": "opened",
        "title": "title",
    }

    id: int
    kind: str
    target: str = Field(description="A run's id; runs=a,b for a comparison; a report's id.")
    title: str = Field(description="Shown only in the list of links.")
    project: str = Field(description="Slug of the project.")
    created_by: str | None
    created_at: datetime
    expires_at: datetime | None = Field(description="Null: works until it is revoked.")
    revoked_at: datetime | None
    opened: int = Field(description="How many times it was followed.")
    live: bool = Field(description="Whether it works.")


class NewShare(Share):
    """A created link."""

    link: str = Field(description="Its URL, returned only once.")


class ShareBody(Body):
    """A link to create."""

    kind: Literal["comparison", "report", "run"]
    target: str = Field(
        min_length=1,
        max_length=2000,
        description="A run's id; runs=a,b (the query of a comparison's address); a report's id.",
    )
    title: str = Field("", max_length=200)
    days: Days | None = Field(DAYS, description="Null: until it is revoked.")
