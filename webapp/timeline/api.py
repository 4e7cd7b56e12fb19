"""Timelines in the REST API."""

from rest_framework.exceptions import NotFound

from troupe_client.documents import timeline as documents
from webapp.accounts.permissions import Person
from webapp.agents.registry import agent_pages
from webapp.api.routes import Routes
from webapp.runs.selectors import run_get
from webapp.timeline.batches import batch_read
from webapp.timeline.services import timeline_between, timeline_read

routes = Routes()


@routes.get("runs/<str:run_id>/timeline/", name="run-timeline")
def timeline(user: Person, run_id: str, query: documents.AskedWindow) -> documents.RunTimeline:
    """Return the spans of work of a run by lane, seconds by phase and waited, waits by iteration, waits between lanes."""
    run = run_get(user, run_id)
    moments = query.moments
    window = timeline_between(run, *moments) if moments else timeline_read(run, query.first, query.last)
    return window or documents.RunTimeline()


@routes.get("runs/<str:run_id>/batches/<int:iteration>/", name="run-batch")
def batch(user: Person, run_id: str, iteration: int, sort: documents.Sort = "start") -> documents.RunBatch:
    """Return every episode of the batch of an iteration's update: facts, times, stages by policy version, shares of roles."""
    run = run_get(user, run_id)
    anatomy = batch_read(run, iteration, sort) if iteration <= documents.LARGEST else None
    if anatomy is None or not anatomy.episodes:
        why = agent_pages(run.config).no_batches
        more = f": {why}; see the timeline" if why else ""
        raise NotFound(f"there is no recorded batch of iteration {iteration}{more}")
    return anatomy
