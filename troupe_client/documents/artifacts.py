"""Artifacts: named files, data sets, tables and models of a project, in versions."""

import re
from datetime import datetime
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, model_validator

from troupe_client.documents.base import Body, Document

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
VERSION = re.compile(r"v\d+")
LATEST = "latest"
MOST_FILES = 10_000
MOST_METADATA = 64 << 10
LARGEST_FILE = 8 << 30
"""Bytes."""


class Artifact(Document):
    """An artifact with its newest version."""

    columns: ClassVar = {
        "artifact": "name",
        "type": "type",
        "latest": "latest",
        "aliases": "aliases",
        "bytes": "size",
    }

    id: int
    name: str
    type: str = Field(description="A word such as dataset, table, file or model.")
    project: str = Field(description="Slug of the project.")
    versions: int = Field(description="Number of versions, with removed ones.")
    latest: str | None = Field(description="Newest version that is not removed, such as v3.")
    size: int = Field(description="Bytes of the newest version.")
    aliases: list[str] = Field(description="Aliases of all versions.")
    created_at: datetime = Field(description="Time of the newest version.")
    page: str = Field(description="Path of its page.")


class ArtifactCheckpoint(Document):
    """The policy of a checkpoint that is the content of a version."""

    run: str
    iteration: int
    policy: str


class ArtifactFile(Document):
    """A file of a version."""

    path: str
    size: int = Field(description="Bytes.")
    sha256: str


class ArtifactVersion(Document):
    """A version of an artifact."""

    artifact: int = Field(description="Id of the artifact.")
    name: str = Field(description="Name of the artifact.")
    type: str
    project: str = Field(description="Slug of the project.")
    version: str = Field(description="Such as v3.")
    digest: str = Field(
        description="SHA-256 of the paths and hashes of all files, or of the checkpoint's identity."
    )
    size: int = Field(description="Bytes.")
    aliases: list[str] = Field(description="Aliases; latest for the newest version.")
    metadata: dict[str, Any]
    made_by: str | None = Field(description="Run that made it.")
    used_by: list[str] = Field(description="Runs that used it.")
    checkpoint: ArtifactCheckpoint | None = Field(description="Null for a version with files.")
    removed: bool = Field(description="Whether its contents were deleted.")
    created_at: datetime
    page: str = Field(description="Path of the artifact's page.")


class ArtifactVersionFiles(ArtifactVersion):
    """A version with its files."""

    files: list[ArtifactFile]


class ArtifactVersions(Artifact):
    """An artifact with its versions, newest first."""

    versions: list[ArtifactVersion]  # type: ignore[assignment]


class RunArtifacts(Document):
    """Versions that a run made and used."""

    made: list[ArtifactVersion]
    used: list[ArtifactVersion]


class ArtifactAlias(Document):
    """An alias after its change."""

    alias: str
    version: str | None = Field(description="Null for a removed alias.")


class ArtifactContent(Document):
    """A stored content."""

    sha256: str
    size: int = Field(description="Bytes.")


class MissingContents(Document):
    """The contents of a version that were not uploaded."""

    detail: str
    missing: list[str] = Field(description="SHA-256 of each.")


class PrunedVersion(Document):
    """A deleted version."""

    version: str
    size: int = Field(description="Bytes.")


class RetainedVersion(Document):
    """A version that is not deleted."""

    version: str
    reason: str


class ArtifactsPruned(Document):
    """What a deletion of old versions deleted, or would delete."""

    deleted: list[PrunedVersion]
    kept: list[RetainedVersion]
    freed: int = Field(description="Bytes.")
    dry: bool


def _relative(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not path or path.startswith("/") or ".." in parts or str(PurePosixPath(path)) != path or "\\" in path:
        raise ValueError("use a relative path without .. such as train/part-0.jsonl")
    return path


def alias_valid(alias: str) -> str:
    """Return the alias. Raises ValueError for one that is automatic, or that a version number could be."""
    if not NAME.fullmatch(alias) or len(alias) > 40:
        raise ValueError("an alias has at most 40 letters, digits and . _ -")
    if alias == LATEST or VERSION.fullmatch(alias):
        raise ValueError(f"{alias} is set automatically; choose another alias")
    return alias


class FileBody(Body):
    """A file of a version, whose content was uploaded before."""

    path: Annotated[str, Field(max_length=400), AfterValidator(_relative)]
    size: int = Field(ge=0, le=LARGEST_FILE)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class CheckpointBody(Body):
    """A policy of a checkpoint."""

    run: str = Field(max_length=40)
    name: str = Field("last", max_length=40, description="last, best or an iteration.")
    policy: str = Field(max_length=80)


class VersionBody(Body):
    """A version to create: files, or a checkpoint."""

    name: str = Field(max_length=80, pattern=f"^{NAME.pattern}$")
    type: str = Field("file", max_length=40, pattern=f"^{NAME.pattern}$")
    files: list[FileBody] = Field([], max_length=MOST_FILES)
    checkpoint: CheckpointBody | None = None
    aliases: list[Annotated[str, AfterValidator(alias_valid)]] = Field([], max_length=20)
    metadata: dict[str, Any] = {}

    @model_validator(mode="after")
    def _one_content(self) -> "VersionBody":
        if bool(self.files) == bool(self.checkpoint):
            raise ValueError("give either files or checkpoint")
        if len({file.path for file in self.files}) < len(self.files):
            raise ValueError("two files have the same path")
        if len(str(self.metadata)) > MOST_METADATA:
            raise ValueError(f"metadata has at most {MOST_METADATA} characters")
        return self


class PruneBody(Body):
    """Which versions to delete."""

    artifact: str = Field("", max_length=80, description="Only this artifact.")
    last: int = Field(1, ge=0, le=10_000, description="Newest versions to keep of each artifact.")
    dry: bool = Field(False, description="Only list the versions.")


class AliasBody(Body):
    """An alias to set or to remove."""

    alias: str
    version: str = Field("", description="v3, latest or an alias; empty removes the alias.")


class UseBody(Body):
    """A version that a run uses."""

    artifact: str = Field(description="NAME, NAME:v3 or NAME:alias.")
