"""Checkpoints streamed as a tar: a folder per policy, with a model card.

Language models are Hugging Face folders, small networks are the whole checkpoint; both with the run's config.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse

from training_core.config.files import parse_config, to_toml
from training_core.errors import CheckpointError, ConfigError
from webapp.accounts.audit import audit_note
from webapp.accounts.permissions import Person
from webapp.agents.registry import agent_pages
from webapp.checkpoints.models import Checkpoint
from webapp.checkpoints.services import checkpoint_words
from webapp.common.attachments import attachment
from webapp.provenance.services import provenance_flat
from webapp.runs.states import TransitionRefused
from workers.storage.checkpoint_files import (
    Member,
    checkpoint_place,
    policies_in,
    tar_chunks,
    tar_size,
)


@dataclass(frozen=True)
class Download:
    """An archive to stream."""

    root: str
    """Folder in the archive, and the file's name without .tar."""
    members: list[Member]

    @property
    def size(self) -> int:
        """Size of the whole archive in bytes."""
        return tar_size(self.members)

    def chunks(self) -> Iterator[bytes]:
        """The archive."""
        return tar_chunks(self.root, self.members)


def checkpoint_download(user: Person, checkpoint: Checkpoint, policy: str = "") -> Download:
    """Return the models of a checkpoint, or of one policy. Raises ConfigError (policy), TransitionRefused."""
    if checkpoint.removed:
        raise TransitionRefused(f"the checkpoint {checkpoint.path} was removed; choose another one")
    try:
        folder = checkpoint_place(settings.TROUPE_HOME / "runs" / checkpoint.run_id, checkpoint.path)
    except CheckpointError as error:
        raise TransitionRefused(str(error)) from error
    there = policies_in(folder)
    if policy and policy not in there:
        raise ConfigError(
            {"policy": f"no policy {policy[:40]!r}; the checkpoint has {', '.join(there) or 'none'}"}
        )
    chosen = [policy] if policy else there
    if not chosen:
        raise TransitionRefused(f"there are no models in {checkpoint_words(checkpoint)}")
    pages = agent_pages(checkpoint.run.config)
    members = pages.archive_files(folder, chosen)
    members += _config(checkpoint)
    members += [card_of(checkpoint, name) for name in chosen]
    audit_note(user, checkpoint.run.project, "checkpoint.download", f"{checkpoint.run_id}/{checkpoint.path}")
    return Download(f"{checkpoint.run_id}-{checkpoint.path.rpartition('/')[2]}", members)


def download_response(request: HttpRequest, download: Download) -> StreamingHttpResponse:
    """Return the streaming response; the archive is never in memory as a whole."""
    chunks = _in_threads(download) if isinstance(request, ASGIRequest) else download.chunks()
    return StreamingHttpResponse(
        chunks,
        content_type="application/x-tar",
        headers={
            "Content-Length": str(download.size),
            "Content-Disposition": attachment(f"{download.root}.tar"),
        },
    )


async def _in_threads(download: Download) -> AsyncIterator[bytes]:
    """Read the disk in threads, outside the event loop."""
    chunks = download.chunks()
    while chunk := await asyncio.to_thread(next, chunks, b""):
        yield chunk


def _config(checkpoint: Checkpoint) -> list[Member]:
    """Return the run's config, which defines roles, small networks and environment; nothing if it is of another version."""
    try:
        content = to_toml(parse_config(checkpoint.run.config)).encode()
    except ConfigError:
        return []
    return [Member("config.toml", len(content), content)]


TAGS = ["troupe", "reinforcement-learning"]
_HUB_ID = re.compile(r"(?!models/|runs/)[\w.-]+/[\w.-]+", re.ASCII)


def card_of(checkpoint: Checkpoint, policy: str) -> Member:
    """Return the card of a policy: front matter for the Hugging Face hub, and all facts as JSON. Text of users is indented, so that it
    stays text.
    """
    run = checkpoint.run
    roles = [name for name, role in run.config["team"]["roles"].items() if role["policy"] == policy]
    section = run.config["policies"].get(policy, {})
    pages = agent_pages(run.config)
    source, field = pages.card_source
    facts = {
        "run": run.pk,
        "name": run.name,
        "iteration": checkpoint.iteration,
        "parent": f"{run.parent_id} {run.parent_checkpoint}" if run.parent_id else None,
        "policy": policy,
        "roles": roles,
        source: section.get(field, ""),
        "environment": run.config["environment"],
        "algorithm": run.config["algorithm"],
        "metrics": checkpoint.metrics,
        "provenance": provenance_flat([run]).get(run.pk, {}),
    }
    head = "".join(
        f"{name}: {json.dumps(value)}\n" for name, value in _front_matter(pages.card_facts, section).items()
    )
    shown = "\n".join(f"    {line}" for line in json.dumps(facts, indent=2, ensure_ascii=False).split("\n"))
    text = (
        f"---\n{head}---\n# {policy}, iteration {checkpoint.iteration}\n\nTrained with Troupe.\n\n{shown}\n"
    )
    content = text.encode()
    return Member(f"{policy}/README.md", len(content), content)


def _front_matter(kind: Mapping[str, str], section: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that the hub reads. A base model is named only by its id on the hub, which refuses other names."""
    fields: dict[str, Any] = {**kind, "tags": TAGS}
    model = str(section.get("model", ""))
    adapted = section.get("adapter", {}).get("type", "none") != "none"
    if adapted:
        fields["library_name"] = "peft"
    if _HUB_ID.fullmatch(model):
        fields |= {"base_model": model, "base_model_relation": "adapter" if adapted else "finetune"}
    return fields
