"""Kinds of channels: the allowed Apprise URLs.

Apprise supports more than a hundred services. Some write to the server's own log, some load files or further URLs named
by a parameter, some run programs. A channel is one of KINDS, with only the parameters listed here.
"""

from collections.abc import Collection
from ipaddress import ip_address
from typing import Any

import apprise
from apprise.plugins import N_MGR, url_to_dict

from training_core.errors import TroupeError
from webapp.common.networks import literal_allowed

LONGEST = 2000
EVERYWHERE = frozenset({"format", "overflow", "verify", "emojis"})
"""Parameters allowed for every kind."""
_BODY: frozenset[str] = frozenset()
_MAIL = frozenset({"to", "cc", "bcc", "from", "name", "reply", "smtp", "mode", "user", "pass"})
_NTFY = frozenset({"to", "token", "auth", "mode", "priority", "xtags", "click", "delay", "email", "image"})
_MATTERMOST = frozenset({"to", "channel", "channels", "team", "mode", "botname", "image"})
_MATRIX = frozenset({"to", "token", "mode", "version", "msgtype", "image"})
_ROCKET = frozenset({"to", "mode", "avatar", "webhook"})
_WEBEX = frozenset({"to", "token", "mode"})
_WORKFLOWS = frozenset(
    {"id", "sig", "ver", "api-version", "route", "routeid", "image", "wrap", "pa", "powerautomate"}
)
KINDS: dict[str, frozenset[str]] = {
    "json": _BODY,
    "jsons": _BODY,
    "xml": _BODY,
    "xmls": _BODY,
    "form": _BODY,
    "forms": _BODY,
    "mailto": _MAIL,
    "mailtos": _MAIL,
    "slack": frozenset({"to", "token", "mode", "footer", "timestamp", "blocks", "image"}),
    "discord": frozenset({"avatar", "footer", "tts", "thread", "ping", "image"}),
    "workflow": _WORKFLOWS,
    "workflows": _WORKFLOWS,
    "tgram": frozenset({"to", "silent", "preview", "topic", "thread", "mdv", "content", "image"}),
    "ntfy": _NTFY,
    "ntfys": _NTFY,
    "mmost": _MATTERMOST,
    "mmosts": _MATTERMOST,
    "matrix": _MATRIX,
    "matrixs": _MATRIX,
    "pover": frozenset({"to", "priority", "sound", "expire"}),
    "gotify": frozenset({"priority"}),
    "gotifys": frozenset({"priority"}),
    "rocket": _ROCKET,
    "rockets": _ROCKET,
    "zulip": frozenset({"to", "token"}),
    "gchat": frozenset({"workspace", "key", "token", "thread"}),
    "wxteams": _WEBEX,
    "webex": _WEBEX,
    "pagerduty": frozenset({"class", "group", "severity", "region", "image"}),
    "opsgenie": frozenset({"to", "priority", "region", "tags", "entity", "alias"}),
    "pbul": frozenset({"to"}),
}
"""Kind -> its parameters. None of them is a file, another URL to load, a method or a header."""


class ChannelRefused(TroupeError):
    """The address is not allowed for a channel; the message contains the reason, without the address."""


def channel_parts(address: str) -> dict[str, Any]:
    """Return the parts of the address as parsed by Apprise, after checking its kind. Raises ChannelRefused."""
    parts: dict[str, Any] | None = None
    if len(address) <= LONGEST and "\0" not in address:
        parts = url_to_dict(address)  # type: ignore[no-untyped-call]
    written = address.partition("://")[0].lower()
    kind = str(parts["schema"]) if parts else written
    if kind not in KINDS and (parts or written in N_MGR):
        raise ChannelRefused(
            f"address: channels of kind {kind[:20]} are not supported; use {', '.join(KINDS)}"
        )
    if not parts:
        raise ChannelRefused(
            "address: Apprise does not support it; use one such as json://host/path, mailto://user:password@host or slack://..."
        )
    for sign, what in (("+", "headers"), ("-", "parameters of the request"), (":", "fields of the body")):
        if parts.get(f"qsd{sign}"):
            raise ChannelRefused(f"address: remove the parameters that begin with {sign} (they add {what})")
    names = {str(name).lower() for name in parts.get("qsd") or {}}
    if refused := sorted(names - KINDS[kind] - EVERYWHERE):
        parameters = ", ".join(sorted(KINDS[kind] | EVERYWHERE))
        raise ChannelRefused(
            f"address: remove {', '.join(refused)[:100]}; a channel of kind {kind} has the parameters {parameters}"
        )
    return parts


def channel_kind(address: str, networks: Collection[str]) -> str:
    """Return the kind of a new channel's address. Raises ChannelRefused.

    A numeric address that is not allowed is rejected here; names are resolved and checked when a message is sent.
    """
    parts = channel_parts(address)
    kind, host = str(parts["schema"]), str(parts.get("host") or "").strip("[]")
    if _numeric(host) and not literal_allowed(host, networks):
        raise ChannelRefused(
            "address: it is inside the server's network; an administrator may allow that network with TROUPE_WEBHOOK_NETWORKS"
        )
    if apprise.Apprise.instantiate(parts) is None:
        raise ChannelRefused(f"address: a part that kind {kind} needs is missing or wrong")
    return kind


def _numeric(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
