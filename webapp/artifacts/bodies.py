"""Bodies of requests about artifacts."""

import re
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from training_core.errors import ConfigError
from webapp.artifacts.storage import LARGEST_FILE

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
VERSION = re.compile(r"v\d+")
LATEST = "latest"
MOST_FILES = 10_000
MOST_METADATA = 64 << 10


def _plain(path: str) -> str:
    parts = PurePosixPath(path).parts
    if (
        not path
        or path.startswith("/")
        or "\\" in path
        or "\0" in path
        or ".." in parts
        or str(PurePosixPath(path)) != path
    ):
        raise ValueError("use a relative path without .. such as train/part-0.jsonl")
    return path


def alias_valid(alias: str) -> str:
    """Return the alias. Raises ValueError for one that is automatic, or that a version number could be."""
    if not NAME.fullmatch(alias) or len(alias) > 40:
        raise ValueError("an alias has at most 40 letters, digits and . _ -")
    if alias == LATEST or VERSION.fullmatch(alias):
        raise ValueError(f"{alias} is set automatically; choose another alias")
    return alias


class Body(BaseModel):
    """Base of the bodies."""

    model_config = ConfigDict(extra="forbid")


class FileBody(Body):
    """A file of a version, whose content was uploaded before."""

    path: Annotated[str, Field(max_length=400), AfterValidator(_plain)]
    size: int = Field(ge=0, le=LARGEST_FILE)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class CheckpointBody(Body):
    """A policy of a checkpoint."""

    run: str = Field(max_length=40)
    name: str = Field("last", max_length=40)
    """last, best or an iteration."""
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


def version_body(data: Any) -> VersionBody:
    """Validate a body. Raises ConfigError with one message per field."""
    try:
        return VersionBody.model_validate(data)
    except ValidationError as error:
        items = error.errors(include_url=False, include_context=False, include_input=False)[:20]
        raise ConfigError({".".join(map(str, item["loc"])): item["msg"] for item in items}) from error
