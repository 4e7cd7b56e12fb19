"""Addresses that a project's events are sent to, and every delivery."""

import uuid

from django.conf import settings
from django.db import models

from webapp.accounts.models import Project


class Webhook(models.Model):
    """One address. It may hold secrets, and what signs the events is one: both are encrypted (webapp/common/sealing.py)."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="webhooks")
    name = models.CharField(max_length=80)
    host = models.CharField(max_length=260)
    """Scheme, host and port of the address: the part that is shown."""
    sealed_address = models.TextField()
    sealed_secret = models.TextField()
    """What HMAC-SHA256 signs with; shown once."""
    events = models.JSONField(default=list)
    """Names of webapp.webhooks.events.EVENTS that are sent."""
    enabled = models.BooleanField(default=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="one_webhook_per_name")]

    def __str__(self) -> str:
        return f"{self.name} ({self.host})"


class Delivery(models.Model):
    """One event on its way to one address; written with what happened, in the same transaction."""

    class State(models.TextChoices):
        """waiting: for its first or next try."""

        WAITING = "waiting"
        DELIVERED = "delivered"
        GIVEN_UP = "given up"

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    key = models.UUIDField(default=uuid.uuid4, unique=True)
    """Sent with every try, so that a receiver knows an event again."""
    event = models.CharField(max_length=40)
    payload = models.JSONField()
    state = models.CharField(max_length=10, choices=State.choices, default=State.WAITING)
    next_at = models.DateTimeField(null=True)
    """When it is tried next; None when it is over."""
    tries = models.JSONField(default=list)
    """[{"time", "code" (None: no answer), "said", "seconds"}], oldest first."""
    left = models.IntegerField(default=0)
    """Tries that are left."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-pk"]
        indexes = [models.Index(fields=["state", "next_at"]), models.Index(fields=["webhook", "-id"])]

    @property
    def last(self) -> dict[str, object]:
        """The last try; empty before the first."""
        return self.tries[-1] if self.tries else {}
