"""What is sent: the names of events, and what each says."""

from typing import Any

from django.conf import settings
from django.urls import reverse

from webapp.checkpoints.models import Checkpoint
from webapp.health.models import Finding
from webapp.runs.models import Run

EVENTS: dict[str, str] = {
    "run.launched": "a run was queued",
    "run.started": "a run began to train, or went on",
    "run.paused": "a run was paused",
    "run.finished": "a run finished",
    "run.stopped": "a run was stopped",
    "run.failed": "a run failed",
    "finding.opened": "a health rule found something",
    "checkpoint.written": "a run wrote a checkpoint",
}
PING = "ping"
"""Sent by hand, to try an address."""
OF_STATE = {
    "running": "run.started",
    "paused": "run.paused",
    "finished": "run.finished",
    "stopped": "run.stopped",
    "failed": "run.failed",
}
"""State that a run has come to -> event."""


def run_facts(run: Run) -> dict[str, Any]:
    """What every event says of its run."""
    return {
        "id": run.pk,
        "name": run.name,
        "state": run.state,
        "reason": run.reason,
        "owner": run.owner.username,
        "tags": run.tags,
        "iteration": run.iteration,
        "iterations": run.iterations,
        "headline": {key: value for key, value in run.headline.items() if key != "spark"},
        "page": settings.TROUPE_URL.rstrip("/") + reverse("runs:detail", args=[run.pk]),
    }


def finding_facts(finding: Finding) -> dict[str, Any]:
    """What a health rule found."""
    return {
        "rule": finding.rule,
        "key": finding.key,
        "severity": finding.severity,
        "title": finding.title,
        "first_step": finding.first_step,
    }


def checkpoint_facts(checkpoint: Checkpoint) -> dict[str, Any]:
    """A checkpoint; `path` is relative to the run folder."""
    return {
        "path": checkpoint.path,
        "iteration": checkpoint.iteration,
        "size": checkpoint.size,
        "best": checkpoint.best,
        "metrics": checkpoint.metrics,
    }
