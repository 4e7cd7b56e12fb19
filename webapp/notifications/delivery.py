"""Delivery of events: one row per event and destination, leased to one task per attempt, repeated with growing pauses."""

import time
from datetime import timedelta
from functools import partial
from typing import Any

import httpcore
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.dispatch import Signal
from django.urls import reverse
from django.utils import timezone

from training_core.errors import TroupeError
from webapp.common.task_queue import enqueue
from webapp.notifications.kinds import KINDS, NotDelivered
from webapp.notifications.models import Delivery, Destination
from webapp.runs.models import Run

PING = "ping"
"""Sent manually, to test an address."""
PAUSES = (10, 60, 300, 1800, 7200, 21600)
"""Seconds between a failed attempt and the next: seven attempts within nine hours."""
LEASE = timedelta(seconds=60)
"""Duration for which an attempt is leased to the task that started it."""
STORED = timedelta(days=30)
delivery_ended = Signal()
"""Sent with `delivery` when it is delivered or given up."""


def event_deliver(run: Run, event: str, facts: dict[str, Any], **_: Any) -> None:
    """Receiver of `run_event`: write a delivery for each destination that has selected the event."""
    destinations = Destination.objects.filter(
        project=run.project_id, enabled=True, events__contains=[event]
    ).select_related("project")
    for destination in destinations:
        if KINDS[destination.kind].accepts(facts):
            deliver_soon(delivery_write(destination, event, {"run": _run_facts(run)} | facts))


def delivery_write(
    destination: Destination, event: str, facts: dict[str, Any], left: int = len(PAUSES) + 1
) -> Delivery:
    """Store a delivery that is due, with the number of attempts that are left."""
    delivery = Delivery(destination=destination, event=event, next_at=timezone.now(), left=left)
    delivery.payload = {
        "id": str(delivery.key),
        "event": event,
        "time": timezone.now().isoformat(),
        "project": destination.project.slug,
        **facts,
    }
    delivery.save()
    return delivery


def deliver_soon(delivery: Delivery) -> Delivery:
    """Queue a delivery after commit. Without a broker, the next periodic task delivers it."""
    transaction.on_commit(partial(enqueue, "notifications.deliver", delivery.pk))
    return delivery


def delivery_now(pk: int) -> bool:
    """Attempt a delivery that is due; returns whether it succeeded. Two concurrent tasks make one attempt."""
    now = timezone.now()
    due = Delivery.objects.filter(pk=pk, state=Delivery.State.WAITING, next_at__lte=now)
    if not due.update(next_at=now + LEASE):
        return False
    deliveries = Delivery.objects.select_related("destination__project")
    made = attempt_make(deliveries.get(pk=pk))
    with transaction.atomic():
        delivery = deliveries.select_for_update(of=("self",)).get(pk=pk)
        waited = delivery.state == Delivery.State.WAITING  # else it was sent again meanwhile, and has ended
        delivery.tries = [*delivery.tries, made]
        if waited:
            _advance(delivery)
        delivery.save(update_fields=["tries", "left", "state", "next_at"])
    if waited and delivery.state != Delivery.State.WAITING:
        delivery_ended.send(sender=Delivery, delivery=delivery)
    return delivery.state == Delivery.State.DELIVERED


def _advance(delivery: Delivery) -> None:
    """Set the state after the last attempt, and the time of the next one."""
    delivery.left -= 1
    if not delivery.last["said"]:
        delivery.state, delivery.next_at = Delivery.State.DELIVERED, None
    elif delivery.left <= 0:
        delivery.state, delivery.next_at = Delivery.State.GIVEN_UP, None
    else:
        pause = PAUSES[min(len(PAUSES) - delivery.left, len(PAUSES) - 1)]
        delivery.next_at = timezone.now() + timedelta(seconds=pause)


def attempt_make(delivery: Delivery) -> dict[str, Any]:
    """Return {"time", "code", "said", "seconds"}; `said` is the reason of a failure, else empty. Never raises."""
    started, code, reason = time.time(), None, ""
    try:
        code = KINDS[delivery.destination.kind].send(delivery)
    except NotDelivered as error:
        code, reason = error.code, str(error)
    except (TroupeError, ImproperlyConfigured) as error:
        reason = str(error)
    except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError, OSError) as error:
        reason = f"no response: {type(error).__name__}"
    return {"time": started, "code": code, "said": reason[:300], "seconds": round(time.time() - started, 3)}


def deliveries_forget() -> int:
    """Delete old deliveries; returns their number."""
    return Delivery.objects.filter(created_at__lt=timezone.now() - STORED).delete()[0]


def _run_facts(run: Run) -> dict[str, Any]:
    """Return the fields of the run, part of every event but a ping."""
    return {
        "id": run.pk,
        "name": run.name,
        "state": run.state,
        "reason": run.reason,
        "remedy": run.remedy,
        "owner": run.owner.username,
        "tags": run.tags,
        "iteration": run.iteration,
        "iterations": run.iterations,
        "headline": {key: value for key, value in run.headline.items() if key != "spark"},
        "page": settings.TROUPE_PUBLIC_URL + reverse("runs:detail", args=[run.pk]),
    }
