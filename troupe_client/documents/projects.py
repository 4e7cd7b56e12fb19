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


class Token(ProjectToken):
    """An API token of the caller, without its secret."""

    columns: ClassVar = {"token": "id"} | ProjectToken.columns

    id: int
    revoked_at: datetime | None


class NewToken(Token):
    """A created token."""

    columns: ClassVar = {"token": "id", "name": "name", "expires": "expires_at", "secret": "secret"}

    secret: str = Field(description="The token itself, returned only once.")


class TokenBody(Body):
    """A token to create. It may do no more than the token that authenticates the request."""

    name: str = Field(min_length=1, max_length=80, description="The purpose of the token.")
    scope: Literal["read", "launch", "admin"] = Field(
        "launch", description="read; launch includes read; admin includes both."
    )
    project: str = Field("", description="Slug of the only project that it opens; default: all of its user.")
    runs_per_day: int | None = Field(
        None,
        ge=0,
        le=10_000,
        description="Maximum number of launches, resumes and jobs in 24 hours; null: no limit.",
    )
    days: int = Field(365, ge=0, le=3650, description="Days until it expires; 0: it does not expire.")


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
