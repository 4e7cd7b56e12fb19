"""The kinds of destinations: webhooks for programs, channels for people.

A receiver of a webhook checks `X-Troupe-Signature`: "sha256=" and the hex HMAC-SHA256, under the webhook's secret, of
`X-Troupe-Timestamp`, a full stop, and the raw body; and that the timestamp is recent.
"""

import hashlib
import hmac
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from django.conf import settings

from training_core.errors import TroupeError
from webapp.common.outgoing import host_of, post
from webapp.notifications.channel_addresses import channel_parts, channel_service
from webapp.notifications.channel_process import message_send
from webapp.notifications.models import Delivery
from webapp.runs.lifecycle import EVENTS

NOT_SENT = (
    "the last message was not sent; check the address. Addresses inside the server's network are refused unless an "
    "administrator names them in TROUPE_WEBHOOK_NETWORKS"
)


class NotDelivered(TroupeError):
    """The receiver did not accept an event. `code` is the status of its HTTP response, if there was one."""

    def __init__(self, reason: str, code: int | None = None) -> None:
        super().__init__(reason)
        self.code = code


class Kind(ABC):
    """A kind of destination. Addresses contain secrets: messages of errors must not contain the address."""

    title: str
    default_events: tuple[str, ...]
    """Events of a destination for which none are selected."""
    signed = False
    """Whether a destination has a secret, shown once, that signs what is sent."""

    @abstractmethod
    def label(self, address: str) -> str:
        """Return the part of a new address that may be shown. Raises AddressRefused."""

    @abstractmethod
    def check(self, address: str) -> None:
        """Check a stored address against the present rules. Raises AddressRefused."""

    def accepts(self, facts: Mapping[str, Any]) -> bool:
        """Whether an event with these facts is for this kind."""
        return True

    @abstractmethod
    def send(self, delivery: Delivery) -> int | None:
        """Make one attempt; returns the status of an HTTP response. Raises TroupeError, OSError, the errors of httpcore."""


class Webhook(Kind):
    """POSTs the payload of every event. Shown of the address: scheme, host and port."""

    title = "Webhook: signed JSON for a program"
    default_events = tuple(EVENTS)
    signed = True

    def label(self, address: str) -> str:
        """Raises AddressRefused."""
        return host_of(address)

    def check(self, address: str) -> None:
        """Raises AddressRefused."""
        host_of(address)

    def send(self, delivery: Delivery) -> int:
        """Return the status of the response; its body is not read."""
        destination, timestamp = delivery.destination, str(int(time.time()))
        body = json.dumps(delivery.payload, ensure_ascii=False).encode()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "Troupe",
            "X-Troupe-Event": delivery.event,
            "X-Troupe-Delivery": str(delivery.key),
            "X-Troupe-Timestamp": timestamp,
            "X-Troupe-Signature": signature(destination.secret(), timestamp, body),
        }
        code = post(destination.address(), headers, body)
        if not 200 <= code < 300:
            raise NotDelivered("the receiver rejected it", code)
        return code


class Channel(Kind):
    """Sends a message by e-mail or chat, through Apprise. Shown of the address: the service, such as mailto or slack."""

    title = "Channel: messages by e-mail or chat (an Apprise URL)"
    default_events = ("finding.opened",)

    def label(self, address: str) -> str:
        """Raises AddressRefused."""
        return channel_service(address, settings.TROUPE_WEBHOOK_NETWORKS)

    def check(self, address: str) -> None:
        """Raises AddressRefused."""
        channel_parts(address)

    def accepts(self, facts: Mapping[str, Any]) -> bool:
        """False for a finding whose rule has the action none: its config asks for no message."""
        return "finding" not in facts or facts["finding"]["action"] != "none"

    def send(self, delivery: Delivery) -> None:
        """Raises AddressRefused, NotDelivered."""
        address = delivery.destination.address()
        self.check(address)
        if not message_send(address, settings.TROUPE_WEBHOOK_NETWORKS, *message(delivery)):
            raise NotDelivered(NOT_SENT)


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a webhook's body."""
    return "sha256=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def message(delivery: Delivery) -> tuple[str, str]:
    """Return the title and the body of a channel's message about an event."""
    facts = delivery.payload
    if "run" not in facts:
        return "Troupe: test message for this channel", f"From the project {facts['project']}."
    run, finding = facts["run"], facts.get("finding")
    if finding:
        causes = f"Cause: {finding['cause']}\nRemedy: {finding['remedy']}"
        return f"{run['name']}: {finding['rule']}", f"{finding['title']}\n\n{causes}\n\n{finding['page']}"
    body = "\n\n".join(filter(None, [EVENTS[delivery.event], run["reason"], run["remedy"], run["page"]]))
    return f"{run['name']}: {delivery.event}", body


KINDS: dict[str, Kind] = {
    "webhook": Webhook(),
    "channel": Channel(),
}
