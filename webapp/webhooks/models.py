"""Webhooks of projects and their deliveries."""

import uuid

from django.conf import settings
from django.db import models

from webapp.accounts.models import Project


class Webhook(models.Model):
    """A webhook address. The address may contain a secret; it and the signing secret are encrypted (webapp/common/sealing.py)."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="webhooks")
    name = models.CharField(max_length=80)
    host = models.CharField(max_length=260)
    """Scheme, host and port of the address: the only part that is shown."""
    sealed_address = models.TextField()
    sealed_secret = models.TextField()
    """Key of the HMAC-SHA256 signature; shown once."""
    events = models.JSONField(default=list)
    """The events to send: names of webapp.webhooks.events.EVENTS."""
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
    """The delivery of one event to one address; created in the transaction of the event."""

    class State(models.TextChoices):
        """waiting: for its first or next attempt."""

        WAITING = "waiting"
        DELIVERED = "delivered"
        GIVEN_UP = "given up"

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    key = models.UUIDField(default=uuid.uuid4, unique=True)
    """Idempotency key, sent with every attempt."""
    event = models.CharField(max_length=40)
    payload = models.JSONField()
    state = models.CharField(max_length=10, choices=State.choices, default=State.WAITING)
    next_at = models.DateTimeField(null=True)
    """Time of the next attempt; None after the last one."""
    tries = models.JSONField(default=list)
    """[{"time", "code" (None: no response), "said", "seconds"}], oldest first."""
    left = models.IntegerField(default=0)
    """Number of remaining attempts."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-pk"]
        indexes = [models.Index(fields=["state", "next_at"]), models.Index(fields=["webhook", "-id"])]

    @property
    def last(self) -> dict[str, object]:
        """The last attempt; empty before the first."""
        return self.tries[-1] if self.tries else {}
