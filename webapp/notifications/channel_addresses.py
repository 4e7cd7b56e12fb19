"""The allowed addresses of channels: Apprise URLs.

Apprise supports more than a hundred services. Some write to the server's own log, some load files or further URLs named
by a parameter, some run programs. A channel has one of SERVICES, with only the parameters listed here.
"""

from collections.abc import Collection
from ipaddress import ip_address
from typing import Any

import apprise
from apprise.plugins import N_MGR, url_to_dict

from training_core.config.networks import literal_allowed
from webapp.common.outgoing import LONGEST, AddressRefused

EVERYWHERE = frozenset({"format", "overflow", "verify", "emojis"})
"""Parameters allowed for every service."""
_PARAMETERS = {
    "json jsons xml xmls form forms": "",
    "mailto mailtos": "to cc bcc from name reply smtp mode user pass",
    "slack": "to token mode footer timestamp blocks image",
    "discord": "avatar footer tts thread ping image",
    "workflow workflows": "id sig ver api-version route routeid image wrap pa powerautomate",
    "tgram": "to silent preview topic thread mdv content image",
    "ntfy ntfys": "to token auth mode priority xtags click delay email image",
    "mmost mmosts": "to channel channels team mode botname image",
    "matrix matrixs": "to token mode version msgtype image",
    "pover": "to priority sound expire",
    "gotify gotifys": "priority",
    "rocket rockets": "to mode avatar webhook",
    "zulip": "to token",
    "gchat": "workspace key token thread",
    "wxteams webex": "to token mode",
    "pagerduty": "class group severity region image",
    "opsgenie": "to priority region tags entity alias",
    "pbul": "to",
}
SERVICES = {
    service: frozenset(parameters.split())
    for services, parameters in _PARAMETERS.items()
    for service in services.split()
}
"""Service -> its parameters. None of them is a file, another URL to load, a method or a header."""


def channel_parts(address: str) -> dict[str, Any]:
    """Return the parts of the address as parsed by Apprise, after checking its service. Raises AddressRefused."""
    parts: dict[str, Any] | None = None
    if len(address) <= LONGEST and "\0" not in address:
        parts = url_to_dict(address)  # type: ignore[no-untyped-call]
    written = address.partition("://")[0].lower()
    service = str(parts["schema"]) if parts else written
    if service not in SERVICES and (parts or written in N_MGR):
        raise AddressRefused(f"channels of kind {service[:20]} are not supported; use {', '.join(SERVICES)}")
    if not parts:
        raise AddressRefused(
            "Apprise does not support it; use one such as json://host/path, mailto://user:password@host or slack://..."
        )
    for sign, what in (("+", "headers"), ("-", "parameters of the request"), (":", "fields of the body")):
        if parts.get(f"qsd{sign}"):
            raise AddressRefused(f"remove the parameters that begin with {sign} (they add {what})")
    names = {str(name).lower() for name in parts.get("qsd") or {}}
    if refused := sorted(names - SERVICES[service] - EVERYWHERE):
        parameters = ", ".join(sorted(SERVICES[service] | EVERYWHERE))
        raise AddressRefused(
            f"remove {', '.join(refused)[:100]}; a channel of kind {service} has the parameters {parameters}"
        )
    return parts


def channel_service(address: str, networks: Collection[str]) -> str:
    """Return the service of a new channel's address. Raises AddressRefused.

    A numeric address that is not allowed is rejected here; names are resolved and checked when a message is sent.
    """
    parts = channel_parts(address)
    service, host = str(parts["schema"]), str(parts.get("host") or "").strip("[]")
    if _numeric(host) and not literal_allowed(host, networks):
        raise AddressRefused(
            "it is inside the server's network; an administrator may allow that network with TROUPE_WEBHOOK_NETWORKS"
        )
    if apprise.Apprise.instantiate(parts) is None:
        raise AddressRefused(f"a part that kind {service} needs is missing or wrong")
    return service


def _numeric(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
