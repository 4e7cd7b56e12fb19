"""Reports: Markdown about the runs of a project, in versions."""

from datetime import datetime
from typing import ClassVar, Literal

from pydantic import Field

from troupe_client.documents.base import Body, Document
from troupe_client.documents.shares import DAYS, Days

LONGEST = 200_000
"""Maximum characters of a report."""
Format = Literal["md", "html"]


class ReportLinks(Document):
    """Addresses of a report."""

    page: str = Field(description="Path of its page.")


class Report(Document):
    """A report without its text."""

    columns: ClassVar = {
        "report": "id",
        "title": "title",
        "project": "project",
        "author": "author",
        "changed": "updated_at",
    }

    id: int
    title: str
    project: str = Field(description="Slug of the project.")
    author: str
    revision: int = Field(description="Incremented by every save.")
    created_at: datetime
    updated_at: datetime
    links: ReportLinks


class ReportText(Report):
    """A report."""

    text: str = Field(description="Markdown.")


class SavedReport(Report):
    """A report after a save."""

    version: int = Field(description="Number of the version with the text.")


class ReportConflict(ReportText):
    """The unchanged report, because another save followed the base revision."""

    detail: str
    version: int = Field(description="Number of the version that stores the submitted text.")


class DeletedReport(Document):
    """A deleted report."""

    id: int
    title: str
    deleted: bool


class ReportVersion(Document):
    """A saved text, without the text."""

    columns: ClassVar = {
        "version": "number",
        "saved": "updated_at",
        "author": "author",
        "characters": "characters",
        "kind": "kind",
    }

    number: int
    kind: str = Field(description="saved, or conflict: stored only as a version.")
    title: str
    author: str
    characters: int
    created_at: datetime
    updated_at: datetime


class ReportVersionText(ReportVersion):
    """A saved text."""

    text: str = Field(description="Markdown.")


class ReportExport(Document):
    """A report as a file."""

    kind: Format = Field(alias="as")
    text: str


class ReportShare(Document):
    """A read-only link to a report."""

    columns: ClassVar = {"link": "link"}

    share: int = Field(description="Id of the link.")
    link: str = Field(description="Its URL, returned only once.")


class ReportBody(Body):
    """A report to create."""

    title: str = Field("", max_length=200)
    text: str = Field("", max_length=LONGEST, description="Markdown.")
    project: str = Field("", description="Slug; default: your oldest project.")


class ReportTextBody(Body):
    """A text to save."""

    title: str = Field(max_length=200)
    text: str = Field(max_length=LONGEST, description="Markdown.")
    base: int = Field(ge=1, description="The revision that it is based on.")


class ReportShareBody(Body):
    """The lifetime of a link."""

    days: Days | None = Field(DAYS, description="Null: until it is revoked.")
