"""Channels: messages for people by e-mail or chat, through Apprise. An address is an Apprise URL."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings

from webapp.notifications.kinds.base import Kind, NotDelivered
from webapp.notifications.kinds.channel.addresses import channel_parts, channel_service
from webapp.notifications.kinds.channel.process import message_send
from webapp.notifications.models import Delivery
from webapp.runs.lifecycle import EVENTS

NOT_SENT = (
    "the last message was not sent; check the address. Addresses inside the server's network are refused unless an "
    "administrator names them in TROUPE_WEBHOOK_NETWORKS"
)


class Channel(Kind):
    """Sends a text per event. Shown of the address: the service, such as mailto or slack."""

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


def message(delivery: Delivery) -> tuple[str, str]:
    """Return the title and the body of the message about an event."""
    facts = delivery.payload
    if "run" not in facts:
        return "Troupe: test message for this channel", f"From the project {facts['project']}."
    run, finding = facts["run"], facts.get("finding")
    if finding:
        causes = f"Cause: {finding['cause']}\nRemedy: {finding['remedy']}"
        return f"{run['name']}: {finding['rule']}", f"{finding['title']}\n\n{causes}\n\n{finding['page']}"
    body = "\n\n".join(filter(None, [EVENTS[delivery.event], run["reason"], run["remedy"], run["page"]]))
    return f"{run['name']}: {delivery.event}", body
