"""Webhooks: signed JSON for programs.

A receiver checks `X-Troupe-Signature`: "sha256=" and the hex HMAC-SHA256, under the webhook's secret, of
`X-Troupe-Timestamp`, a full stop, and the raw body; and that the timestamp is recent.
"""

import hashlib
import hmac
import json
import time

from webapp.common.outgoing import host_of, post
from webapp.notifications.kinds.base import Kind, NotDelivered
from webapp.notifications.models import Delivery
from webapp.runs.lifecycle import EVENTS


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


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Return the signature of the body."""
    return "sha256=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
