"""The events of webhooks: their names and payloads."""

from typing import Any

from django.conf import settings
from django.urls import reverse

from webapp.checkpoints.models import Checkpoint
from webapp.health.models import Finding
from webapp.runs.models import Run

EVENTS: dict[str, str] = {
    "run.launched": "a run was queued",
    "run.started": "a run started or resumed training",
    "run.paused": "a run was paused",
    "run.finished": "a run finished",
    "run.stopped": "a run was stopped",
    "run.failed": "a run failed",
    "finding.opened": "a health rule found something",
    "checkpoint.written": "a run wrote a checkpoint",
}
PING = "ping"
"""Sent manually, to test an address."""
OF_STATE = {
    "running": "run.started",
    "paused": "run.paused",
    "finished": "run.finished",
    "stopped": "run.stopped",
    "failed": "run.failed",
}
"""State of a run -> event."""


def run_facts(run: Run) -> dict[str, Any]:
    """Return the fields of the run, part of every event."""
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
    """Return the payload of a health finding."""
    return {
        "rule": finding.rule,
        "key": finding.key,
        "severity": finding.severity,
        "title": finding.title,
        "first_step": finding.first_step,
    }


def checkpoint_facts(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the payload of a checkpoint; `path` is relative to the run folder."""
    return {
        "path": checkpoint.path,
        "iteration": checkpoint.iteration,
        "size": checkpoint.size,
        "best": checkpoint.best,
        "metrics": checkpoint.metrics,
    }
