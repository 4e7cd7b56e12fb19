"""Messages to a project's channels, through Apprise. Addresses hold secrets: they are stored encrypted, and never shown, logged
or audited.
"""

import logging

import apprise
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.urls import reverse

from training_core.errors import TroupeError
from webapp.accounts.audit import audit_note
from webapp.accounts.models import Project
from webapp.accounts.permissions import Person, is_owner
from webapp.common.sealing import Unreadable, seal, unseal
from webapp.health.models import Channel, Finding
from webapp.health.rules import RULES

ADDRESS = "channel address"
"""What addresses are sealed for."""


class ChannelRefused(TroupeError):
    """The channel cannot be made; the message says why, without the address."""


@transaction.atomic
def channel_make(user: Person, project: Project, name: str, address: str) -> Channel:
    """A new channel. Raises PermissionDenied, ChannelRefused."""
    _check_owner(user, project)
    name, address = name.strip(), address.strip()
    if not name or len(name) > 80 or "\0" in name + address:
        raise ChannelRefused("name: give 1 to 80 characters")
    if len(address) > 2000 or _sender(address) is None:
        raise ChannelRefused(
            "address: Apprise does not know it; use one such as json://host/path, mailto://user:password@host or slack://..."
        )
    if project.channels.filter(name=name).exists():
        raise ChannelRefused(f"name: there is a channel {name} already; remove it first")
    kind = address.partition("://")[0][:20]
    made = Channel.objects.create(project=project, name=name, kind=kind, sealed=seal(address, ADDRESS))
    audit_note(user, project, "channel.make", name)
    return made


@transaction.atomic
def channel_remove(user: Person, channel: Channel) -> None:
    """Messages go there no more. Raises PermissionDenied."""
    _check_owner(user, channel.project)
    audit_note(user, channel.project, "channel.remove", channel.name)
    channel.delete()


def channel_try(user: Person, channel: Channel) -> bool:
    """Send a message now; whether it was taken. Raises PermissionDenied."""
    _check_owner(user, channel.project)
    audit_note(user, channel.project, "channel.try", channel.name)
    return _send(
        channel, "Troupe: a message to try this channel", f"From the project {channel.project.slug}."
    )


def finding_notify(finding: Finding) -> int:
    """Tell all channels of the project; how many took it, which is noted on the finding and audited."""
    run, rule = finding.run, RULES[finding.rule]
    page = settings.TROUPE_URL.rstrip("/") + reverse("health:page", args=[run.pk])
    body = f"{finding.title}\n\nCause: {rule.cause}\nRemedy: {rule.remedy}\n\n{page}"
    channels = list(run.project.channels.all())
    taken = [each.name for each in channels if _send(each, f"{run.name}: {finding.rule}", body)]
    missed = [each.name for each in channels if each.name not in taken]
    words = [f"told {', '.join(taken)}"] if taken else []
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


def _sender(address: str) -> apprise.Apprise | None:
    logging.getLogger("apprise").setLevel(
        logging.CRITICAL
    )  # it would log addresses that it does not understand
    sender = apprise.Apprise()
    return sender if sender.add(address) else None


def _send(channel: Channel, title: str, body: str) -> bool:
    taken, said = False, "the last message was not taken"
    try:
        sender = _sender(unseal(channel.sealed, ADDRESS))
        taken = bool(sender and sender.notify(title=title, body=body, body_format=apprise.NotifyFormat.TEXT))
    except Unreadable:
        said = (
            "its address was encrypted under another TROUPE_SECRET_KEY: remove the channel and add it again"
        )
    except Exception as error:  # plugins of third parties; their messages may hold the address
        logging.getLogger(__name__).warning("channel %s failed: %s", channel.pk, type(error).__name__)
    channel.said = "the last message was taken" if taken else said
    channel.save(update_fields=["said"])
    return taken
