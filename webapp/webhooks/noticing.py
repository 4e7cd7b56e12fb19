"""Model signal handlers that emit webhook events, so that no other app depends on webhooks."""

from typing import Any

from django.db.models.signals import post_save, pre_save

from webapp.checkpoints.models import Checkpoint
from webapp.health.models import Finding
from webapp.runs.models import Run, RunState
from webapp.webhooks.events import OF_STATE, checkpoint_facts, finding_facts
from webapp.webhooks.services import event_send


def connect() -> None:
    """Connect the handlers, once per process."""
    pre_save.connect(_run_before, sender=Run, dispatch_uid="webhooks run before")
    post_save.connect(_run_after, sender=Run, dispatch_uid="webhooks run after")
    post_save.connect(_finding, sender=Finding, dispatch_uid="webhooks finding")
    post_save.connect(_checkpoint, sender=Checkpoint, dispatch_uid="webhooks checkpoint")


def _run_before(instance: Run, update_fields: Any, **_: Any) -> None:
    """Remember the state before the write; nothing if the state is not written."""
    instance.state_before = None  # type: ignore[attr-defined]
    if update_fields is None or "state" in update_fields:
        known = Run.objects.filter(pk=instance.pk).values_list("state", flat=True).first()
        instance.state_before = known or ""  # type: ignore[attr-defined]


def _run_after(instance: Run, created: bool, **_: Any) -> None:
    before = getattr(instance, "state_before", None)
    if created and instance.state == RunState.QUEUED:
        event_send("run.launched", instance)
    elif before is not None and before != instance.state and instance.state in OF_STATE:
        event_send(OF_STATE[instance.state], instance)


def _finding(instance: Finding, created: bool, **_: Any) -> None:
    if created:
        event_send("finding.opened", instance.run, finding=finding_facts(instance))


def _checkpoint(instance: Checkpoint, created: bool, **_: Any) -> None:
    if created and not instance.removed:
        event_send("checkpoint.written", instance.run, checkpoint=checkpoint_facts(instance))
