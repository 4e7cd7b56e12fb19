"""Provenance of runs: the code, machines and data of the launch and of each attempt."""

from typing import Any

from pydantic import Field

from troupe_client.documents.base import Document


class RunProvenance(Document):
    """Records of a run: command, repositories with commit and diff, machine, hashes of code and data."""

    run: str
    launch: dict[str, Any] | None
    attempts: list[dict[str, Any]] = Field(description="Oldest first.")
    packages: dict[str, Any] = Field(description="Versions of the packages of the last attempt.")
