"""Shapes of a reported provenance (written by workers/provenance), and their bounds."""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from training_core.errors import ConfigError
from workers.provenance.repository import unpacked_diff


def _storable(text: str) -> str:
    return text.replace("\0", "\ufffd")


def _readable(packed: str) -> str:
    unpacked_diff(packed)
    return packed


Short = Annotated[str, Field(max_length=400), AfterValidator(_storable)]
Long = Annotated[str, Field(max_length=4000), AfterValidator(_storable)]
Hash = Annotated[str, Field(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})?$")]
Bytes = Annotated[int, Field(ge=0, le=2**63 - 1)]
Names = Annotated[list[Long], Field(max_length=200)]


class Part(BaseModel):
    """Base of the parts. Fields of a newer reporter are ignored."""

    model_config = ConfigDict(extra="ignore")


class Gpu(Part):
    """One GPU."""

    name: Short = ""
    memory: Bytes = 0
    driver: Short = ""


class Machine(Part):
    """One machine."""

    host: Short = ""
    system: Short = ""
    processor: Short = ""
    cores: Bytes = 0
    memory: Bytes = 0
    gpus: list[Gpu] = Field([], max_length=64)
    python: Short = ""


class Repository(Part):
    """State of a git repository, or `note`: why there is none."""

    name: Short
    folder: Long
    note: Long = ""
    commit: Hash = ""
    branch: Short = ""
    remote: Long = ""
    changed: Names = []
    untracked: Names = []
    more: Bytes = 0
    diff: Annotated[str, Field(max_length=100_000), AfterValidator(_readable)] = ""
    diff_bytes: Bytes = 0
    diff_sha256: Hash = ""
    diff_cut: bool = False
    left_out: Names = []


class Code(Part):
    """A package that the config names by an import path."""

    field: Short
    path: Short
    version: Short = ""
    sha256: Hash = ""
    files: Bytes = 0
    note: Short = ""


class Data(Part):
    """A data file that the config names."""

    field: Short
    path: Long
    bytes: Bytes = 0
    sha256: Hash = ""
    sampled: bool = False
    note: Short = ""


class Reported(Part):
    """A provenance."""

    via: Short = ""
    """What launched the run: command line, form, API, sweep ..."""
    command: Long = ""
    machine: Machine | None = None
    repositories: list[Repository] = Field([], max_length=8)
    packages: dict[Short, Short] = Field({}, max_length=64)
    installed: dict[Short, Short] = Field({}, max_length=1000)
    code: list[Code] = Field([], max_length=64)
    data: list[Data] = Field([], max_length=64)
    cluster: list[Machine] = Field([], max_length=256)


def provenance_read(reported: Any) -> Reported:
    """Validate a report. Raises ConfigError with one message per field."""
    try:
        return Reported.model_validate(reported)
    except ValidationError as error:
        items = error.errors(include_url=False, include_context=False, include_input=False)[:20]
        fields = {".".join(map(str, ("provenance", *item["loc"]))): item["msg"] for item in items}
        raise ConfigError(fields) from error
