"""Receivers of signals: what happens to runs, findings and checkpoints becomes events of webhooks."""

from typing import Any

from django.db.models.signals import post_save

from webapp.checkpoints.models import Checkpoint
from webapp.health.models import Finding
from webapp.runs.lifecycle import run_state_changed
from webapp.runs.models import Run, RunState
from webapp.webhooks.events import OF_STATE, checkpoint_facts, finding_facts
from webapp.webhooks.services import event_send


def connect() -> None:
    """Connect the receivers, once per process."""
    run_state_changed.connect(_run, dispatch_uid="webhooks run")
    post_save.connect(_finding, sender=Finding, dispatch_uid="webhooks finding")
    post_save.connect(_checkpoint, sender=Checkpoint, dispatch_uid="webhooks checkpoint")


def _run(run: Run, before: str, **_: Any) -> None:
    if run.state == RunState.QUEUED and not before:
        event_send("run.launched", run)
    elif run.state in OF_STATE:
        event_send(OF_STATE[run.state], run)


def _finding(instance: Finding, created: bool, **_: Any) -> None:
    if created:
        event_send("finding.opened", instance.run, finding=finding_facts(instance))


def _checkpoint(instance: Checkpoint, created: bool, **_: Any) -> None:
    if created and not instance.removed:
        event_send("checkpoint.written", instance.run, checkpoint=checkpoint_facts(instance))
