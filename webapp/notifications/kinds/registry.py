"""The kinds of destinations. A kind is a folder here, and one line."""

from webapp.notifications.kinds.base import Kind
from webapp.notifications.kinds.channel.kind import Channel
from webapp.notifications.kinds.webhook.kind import Webhook

KINDS: dict[str, Kind] = {
    "webhook": Webhook(),
    "channel": Channel(),
}
