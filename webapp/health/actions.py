"""What follows a new finding, once."""

import logging
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.db import transaction

from training_core.errors import TroupeError
from webapp.accounts.audit import audit_note
from webapp.health.models import Finding
from webapp.runs import services as runs

log = logging.getLogger(__name__)
ENDS: dict[str, Any] = {"pause": runs.run_pause, "stop": runs.run_stop}


def finding_act(finding: Finding) -> None:
    """Do what the finding's rule asks for; whatever fails is noted on it and raised nowhere."""
    if finding.action in ENDS:
        _end(finding)
    if finding.action != "none":
        _notify_soon(finding)


def _end(finding: Finding) -> None:
    """Pause or stop, in the name of the run's owner."""
    run, how = finding.run, finding.action
    try:
        with transaction.atomic():
            ENDS[how](run.owner, run)
            audit_note(AnonymousUser(), run.project, f"run.{how}", run.pk, by="health", rule=finding.rule)
        finding.done = f"asked the run to {how}"
    except (TroupeError, PermissionDenied) as error:
        finding.done = f"could not {how} the run: {error}"
    finding.save(update_fields=["done"])


def _notify_soon(finding: Finding) -> None:
    """Messages go out from a task of their own: a channel may be slow."""
    if not finding.run.project.channels.exists():
        return
    from webapp.health.tasks import notify

    try:
        notify.delay(finding.pk)
    except Exception:
        log.exception("the message about finding %s could not be queued", finding.pk)
