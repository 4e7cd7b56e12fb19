"""Webhooks and channels of a project, and the deliveries of events to them."""

from datetime import datetime
from typing import Any, ClassVar, Literal
from uuid import UUID

from pydantic import Field

from troupe_client.documents.base import Body, Document, Results

Event = Literal[
    "run.launched",
    "run.started",
    "run.paused",
    "run.finished",
    "run.stopped",
    "run.failed",
    "finding.opened",
    "checkpoint.written",
]


class Webhook(Document):
    """A webhook, without address and secret."""

    columns: ClassVar = {
        "webhook": "id",
        "name": "name",
        "host": "host",
        "enabled": "enabled",
        "last": "last",
        "events": "events",
    }

    id: int
    name: str
    host: str = Field(description="Scheme, host and port of its address.")
    events: list[str] = Field(description="Events that it receives.")
    enabled: bool
    created_at: datetime
    last: str | None = Field(description="State of the last delivery.")


class NewWebhook(Webhook):
    """A created webhook."""

    columns: ClassVar = {"webhook": "id", "name": "name", "host": "host", "secret": "secret"}

    secret: str = Field(description="Key of the signatures, returned only once.")


class Webhooks(Results[Webhook]):
    """The webhooks of a project."""

    events: dict[str, str] = Field(description="All events with their descriptions.")


class DeliveryTry(Document):
    """An attempt to deliver an event."""

    time: float = Field(description="Unix time.")
    code: int | None = Field(description="Status of the HTTP response, if there was one.")
    said: str = Field(description="Reason of a failure.")
    seconds: float


class Delivery(Document):
    """An event for a destination."""

    columns: ClassVar = {"delivery": "id", "time": "time", "event": "event", "state": "state"}

    id: int
    key: UUID = Field(description="Idempotency key, sent with every attempt.")
    event: str
    state: str = Field(description="waiting, delivered or given up.")
    time: datetime
    next_at: datetime | None = Field(description="Time of the next attempt.")
    tries: list[DeliveryTry] = Field(description="Attempts, oldest first.")
    payload: dict[str, Any]


class Channel(Document):
    """A channel, without its address."""

    columns: ClassVar = {"channel": "id", "name": "name", "kind": "kind", "status": "said"}

    id: int
    name: str
    kind: str = Field(description="Service, such as mailto or slack.")
    said: str = Field(description="Why nothing can be sent, or the result of the last attempt.")


class TriedChannel(Channel):
    """A channel after a test message."""

    taken: bool = Field(description="Whether the message was accepted.")


class ChannelBody(Body):
    """A channel to create."""

    name: str = Field(max_length=80)
    address: str = Field(max_length=2000, description="An Apprise URL; it is not shown later.")


class WebhookBody(Body):
    """A webhook to create."""

    name: str = Field(max_length=80)
    address: str = Field(max_length=2000, description="https://host/path; it is not shown later.")
    events: list[Event] = Field([], description="Events to send; none: all.")
