"""Messages to a project's channels, through Apprise. Addresses contain secrets: they are stored encrypted, and never shown,
logged or audited. Allowed kinds: webapp/health/channel_kinds.py; allowed targets: webapp/health/channel_sender.py.
"""

import logging
from concurrent.futures import ThreadPoolExecutor

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.urls import reverse

from webapp.accounts.audit import audit_note
from webapp.accounts.models import Project
from webapp.accounts.permissions import Person, is_owner
from webapp.common.sealing import Unreadable, seal, unseal
from webapp.health.channel_kinds import ChannelRefused, channel_kind, channel_parts
from webapp.health.channel_sender import message_send
from webapp.health.models import Channel, Finding
from webapp.health.rules import RULES

ADDRESS = "channel address"
"""Encryption purpose of addresses."""


MOST = 16
"""Maximum number of channels of a project."""
AT_ONCE = 4
"""Number of concurrent messages: all channels of a project finish within a task's time limit."""
TAKEN, NOT_TAKEN = (
    "the last message was sent",
    "the last message was not sent; check the address. Addresses inside the server's network are refused unless an "
    "administrator names them in TROUPE_WEBHOOK_NETWORKS",
)
UNREADABLE = "its address was encrypted under another TROUPE_SECRET_KEY: remove the channel and add it again"


@transaction.atomic
def channel_make(user: Person, project: Project, name: str, address: str) -> Channel:
    """Create a channel. Raises PermissionDenied, ChannelRefused."""
    _check_owner(user, project)
    name, address = name.strip(), address.strip()
    if not name or len(name) > 80 or "\0" in name + address:
        raise ChannelRefused("name: give 1 to 80 characters")
    kind = channel_kind(address, settings.TROUPE_WEBHOOK_NETWORKS)
    if project.channels.filter(name=name).exists():
        raise ChannelRefused(f"name: a channel {name} already exists; remove it first")
    if project.channels.count() >= MOST:
        raise ChannelRefused(f"name: a project has at most {MOST} channels; remove one first")
    made = Channel.objects.create(project=project, name=name, kind=kind, sealed=seal(address, ADDRESS))
    audit_note(user, project, "channel.make", name)
    return made


@transaction.atomic
def channel_remove(user: Person, channel: Channel) -> None:
    """Delete a channel. Raises PermissionDenied."""
    _check_owner(user, channel.project)
    audit_note(user, channel.project, "channel.remove", channel.name)
    channel.delete()


def channel_try(user: Person, channel: Channel) -> bool:
    """Send a message now; returns whether it was accepted. Raises PermissionDenied."""
    _check_owner(user, channel.project)
    audit_note(user, channel.project, "channel.try", channel.name)
    title, body = "Troupe: test message for this channel", f"From the project {channel.project.slug}."
    return bool(_send([channel], title, body))


def channel_said(channel: Channel) -> str:
    """Return the result of the last message, or why no message can be sent to this channel."""
    try:
        channel_parts(unseal(channel.sealed, ADDRESS))
    except Unreadable:
        return UNREADABLE
    except ChannelRefused as error:
        return _unused(error)
    return channel.said


def finding_notify(finding: Finding) -> int:
    """Notify all channels of the project; returns how many accepted the message. Records it on the finding and in the audit log."""
    run, rule = finding.run, RULES[finding.rule]
    page = settings.TROUPE_URL.rstrip("/") + reverse("health:page", args=[run.pk])
    body = f"{finding.title}\n\nCause: {rule.cause}\nRemedy: {rule.remedy}\n\n{page}"
    channels = list(run.project.channels.all())
    taken = [each.name for each in _send(channels, f"{run.name}: {finding.rule}", body)]
    missed = [each.name for each in channels if each.name not in taken]
    words = [f"notified {', '.join(taken)}"] if taken else []
    words += [f"could not reach {', '.join(missed)}"] if missed else []
    finding.done = "; ".join(filter(None, [finding.done, *words]))
    finding.save(update_fields=["done"])
    audit_note(
        AnonymousUser(),
        run.project,
        "finding.notify",
        run.pk,
        rule=finding.rule,
        channels=taken,
        missed=missed,
    )
    return len(taken)


def _check_owner(user: Person, project: Project) -> None:
    if not is_owner(user, project):
        raise PermissionDenied("only owners of the project may change its channels")


def _send(channels: list[Channel], title: str, body: str) -> list[Channel]:
    """Send the same message to all channels; returns those that accepted it. Records the result on each channel."""
    networks = settings.TROUPE_WEBHOOK_NETWORKS

    def one(channel: Channel) -> str:
        try:
            address = unseal(channel.sealed, ADDRESS)
            channel_parts(address)
            return TAKEN if message_send(address, networks, title, body) else NOT_TAKEN
        except Unreadable:
            return UNREADABLE
        except ChannelRefused as error:
            return _unused(error)
        except OSError as error:
            logging.getLogger(__name__).warning("channel %s failed: %s", channel.pk, error)
            return NOT_TAKEN

    with ThreadPoolExecutor(AT_ONCE) as threads:
        for channel, result in zip(channels, threads.map(one, channels), strict=True):
            channel.said = result
            channel.save(update_fields=["said"])
    return [channel for channel in channels if channel.said == TAKEN]


def _unused(refused: ChannelRefused) -> str:
    """Return the message for a channel that was stored before its address was disallowed."""
    words = str(refused).removeprefix("address: ")
    return f"no messages are sent here: {words}. Remove the channel and add it again"[:600]
