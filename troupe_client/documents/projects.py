"""Projects, their members, API tokens and audit log."""

from datetime import datetime
from typing import Any, ClassVar, Literal

from pydantic import Field

from troupe_client.documents.base import Body, Document, Results

TOOL_HEADER = "Troupe-Tool"
"""Header of a request with the name of the assistant's tool that sends it, for the audit log."""


class Project(Document):
    """A project of the caller."""

    columns: ClassVar = {"project": "slug", "name": "name", "level": "level"}

    slug: str
    name: str
    level: str = Field(description="The caller's level: owner, editor or viewer.")


class ProjectBody(Body):
    """A project to create."""

    name: str = Field(max_length=120)


class Member(Document):
    """A member of a project."""

    columns: ClassVar = {"username": "username", "level": "level"}

    username: str
    level: str = Field(description="owner, editor or viewer.")


class MemberBody(Body):
    """A user and their level in a project."""

    username: str = Field(max_length=150)
    level: Literal["owner", "editor", "viewer"]


class RemovedMember(Document):
    """A user who is no longer a member."""

    username: str


class ProjectToken(Document):
    """An API token with access to a project, without its secret."""

    columns: ClassVar = {
        "username": "username",
        "name": "name",
        "prefix": "prefix",
        "scopes": "scopes",
        "project": "project",
        "runs a day": "runs_per_day",
        "last used": "last_used_at",
        "expires": "expires_at",
    }

    username: str
    name: str
    prefix: str = Field(description="First characters of the token.")
    scopes: list[str]
    project: str | None = Field(description="The only project that it opens; null: all of its user.")
    runs_per_day: int | None = Field(
        description="Maximum number of launches, resumes and jobs in 24 hours; null: no limit."
    )
    last_used_at: datetime | None
    expires_at: datetime | None


class OwnToken(ProjectToken):
    """The token that authenticates a request."""

    runs_left: int | None = Field(
        description="Number of runs and jobs that it may start now; null: no limit."
    )


class AuditEntry(Document):
    """An act that changed something."""

    columns: ClassVar = {
        "time": "time",
        "user": "user",
        "act": "act",
        "target": "target",
        "details": "details",
    }

    id: int
    user: str | None = Field(description="Null for acts of Troupe itself.")
    act: str = Field(description="Noun and verb, such as run.stop.")
    target: str
    details: dict[str, Any]
    time: datetime


class AuditLog(Results[AuditEntry]):
    """Entries, newest first."""

    next: int | None = Field(description="`before` of the next page; null on the last page.")
