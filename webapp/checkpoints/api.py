"""Checkpoints in the REST API: download, pin, delete, lineage."""

from typing import Annotated

from django.http import StreamingHttpResponse
from pydantic import Field
from rest_framework.request import Request

from troupe_client.documents import checkpoints as documents
from webapp.accounts.permissions import Person
from webapp.api.routes import Routes
from webapp.checkpoints import services
from webapp.checkpoints.downloads import checkpoint_download, download_response
from webapp.checkpoints.lineage import lineage_document, lineage_read
from webapp.runs.selectors import run_get

routes = Routes()


@routes.get("runs/<str:run_id>/checkpoints/", name="run-checkpoints", operation_id="v1_runs_checkpoints_list")
def checkpoints(user: Person, run_id: str) -> list[documents.Checkpoint]:
    """Return the checkpoints newest first, including removed ones."""
    rows = services.checkpoints_list(run_get(user, run_id))
    return [services.checkpoint_document(row) for row in rows]


@routes.get("runs/<str:run_id>/lineage/", name="lineage")
def lineage(user: Person, run_id: str) -> documents.Lineage:
    """Return the tree of forks from the run's oldest ancestor on."""
    return lineage_document(lineage_read(user, run_get(user, run_id)))


@routes.get(
    "runs/<str:run_id>/checkpoints/<str:name>/download/",
    name="checkpoint-download",
    media_type="application/x-tar",
    errors={409: documents.CheckpointUnavailable},
)
def download(
    user: Person,
    request: Request,
    run_id: str,
    name: str,
    policy: Annotated[str, Field(description="Only this policy; default: all policies.")] = "",
) -> StreamingHttpResponse:
    """Return a tar with a folder per policy: config.json, model.safetensors, the tokenizer, a model card.

    For small networks it contains the whole checkpoint, with its config.toml.
    """
    checkpoint = services.checkpoint_named(user, run_id, name)
    return download_response(request._request, checkpoint_download(user, checkpoint, policy))


@routes.post("runs/<str:run_id>/prune/", name="checkpoints-prune", admin=True)
def prune(user: Person, run_id: str, body: documents.CheckpointsPruneBody) -> documents.CheckpointsPruned:
    """Delete all but the last and the best checkpoints of a run. Pinned and forked ones are kept."""
    return services.checkpoints_prune(user, run_get(user, run_id), body)


@routes.post("runs/<str:run_id>/checkpoints/<str:name>/pin/", name="checkpoint-pin")
def pin(user: Person, run_id: str, name: str) -> documents.Checkpoint:
    """Exempt a checkpoint from retention; 409 if it was removed."""
    return _act(user, run_id, name, "pin")


@routes.post("runs/<str:run_id>/checkpoints/<str:name>/unpin/", name="checkpoint-unpin")
def unpin(user: Person, run_id: str, name: str) -> documents.Checkpoint:
    """Apply retention to a pinned checkpoint again; 409 if it was removed."""
    return _act(user, run_id, name, "unpin")


@routes.post("runs/<str:run_id>/checkpoints/<str:name>/delete/", name="checkpoint-delete", admin=True)
def delete(user: Person, run_id: str, name: str) -> documents.Checkpoint:
    """Delete the files of a checkpoint; 409 if something needs it."""
    return _act(user, run_id, name, "delete")


def _act(user: Person, run_id: str, name: str, act: str) -> documents.Checkpoint:
    checkpoint = services.checkpoint_named(user, run_id, name)
    return services.checkpoint_document(services.checkpoint_do(user, checkpoint, act))
