"""Celery tasks of deliveries: one per attempt, so that a slow receiver does not delay the others."""

from celery import shared_task
from django.utils import timezone

from webapp.notifications.delivery import deliveries_forget, delivery_now
from webapp.notifications.models import Delivery

AT_ONCE = 100


@shared_task(name="notifications.deliver", ignore_result=True, soft_time_limit=45, time_limit=50)
def deliver(delivery_id: int) -> None:
    """Make one attempt, if it is due."""
    delivery_now(delivery_id)


@shared_task(name="notifications.due", ignore_result=True, soft_time_limit=25, time_limit=30)
def due() -> int:
    """Queue the deliveries that are due; returns their number. Deletes old deliveries."""
    deliveries_forget()
    waiting = Delivery.objects.filter(state=Delivery.State.WAITING, next_at__lte=timezone.now())
    due_ids = list(waiting.order_by("next_at").values_list("pk", flat=True)[:AT_ONCE])
    for pk in due_ids:
        deliver.delay(pk)
    return len(due_ids)
