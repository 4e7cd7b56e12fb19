"""Destinations of a project's events, and the deliveries to them."""

import uuid

from django.conf import settings
from django.db import models

from webapp.accounts.models import Project
from webapp.common.sealing import unseal


class Destination(models.Model):
    """Where events of a project are sent. Its address and its secret are encrypted (webapp/common/sealing.py)."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="destinations")
    kind = models.CharField(max_length=20)
    """A name of webapp.notifications.kinds.KINDS."""
    name = models.CharField(max_length=80)
    label = models.CharField(max_length=260)
    """The only part of the address that is shown: of a webhook scheme, host and port, of a channel the service."""
    sealed_address = models.TextField()
    sealed_secret = models.TextField(blank=True)
    """Key of the HMAC-SHA256 signature of a webhook; shown once."""
    events = models.JSONField(default=list)
    """The events to send: names of webapp.runs.lifecycle.EVENTS."""
    enabled = models.BooleanField(default=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["project", "kind", "name"], name="one_destination_per_name")
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.label})"

    def address(self) -> str:
        """Decrypt the address. Raises Unreadable."""
        return unseal(self.sealed_address, self.purpose("address"))

    def secret(self) -> str:
        """Decrypt the secret. Raises Unreadable."""
        return unseal(self.sealed_secret, self.purpose("secret"))

    def purpose(self, part: str) -> str:
        """Return the encryption purpose of the address or the secret."""
        return f"{self.kind} {part}"


class Delivery(models.Model):
    """The delivery of one event to one destination; created in the transaction of the event."""

    class State(models.TextChoices):
        """waiting: for its first or next attempt."""

        WAITING = "waiting"
        DELIVERED = "delivered"
        GIVEN_UP = "given up"

    destination = models.ForeignKey(Destination, on_delete=models.CASCADE, related_name="deliveries")
    key = models.UUIDField(default=uuid.uuid4, unique=True)
    """Idempotency key, sent with every attempt."""
    event = models.CharField(max_length=40)
    payload = models.JSONField()
    state = models.CharField(max_length=10, choices=State.choices, default=State.WAITING)
    next_at = models.DateTimeField(null=True)
    """Time of the next attempt; None after the last one."""
    tries = models.JSONField(default=list)
    """[{"time", "code" (None: no HTTP response), "said" (why it failed), "seconds"}], oldest first."""
    left = models.IntegerField(default=0)
    """Number of remaining attempts."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-pk"]
        indexes = [models.Index(fields=["state", "next_at"]), models.Index(fields=["destination", "-id"])]

    @property
    def last(self) -> dict[str, object]:
        """The last attempt; empty before the first."""
        return self.tries[-1] if self.tries else {}
