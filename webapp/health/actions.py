"""Actions on a new finding, executed once."""

import logging
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.db import transaction

from training_core.config.health import RunHealth
from training_core.errors import TroupeError
from webapp.accounts.audit import audit_note
from webapp.health.forking import finding_fork, generations
from webapp.health.models import Finding
from webapp.runs.models import ENDED_STATES
from webapp.scheduling import services as runs

log = logging.getLogger(__name__)
ENDS: dict[str, Any] = {"pause": runs.run_pause, "stop": runs.run_stop}


def finding_act(finding: Finding, settings: RunHealth) -> None:
    """Execute the action of the finding's rule; a failure is recorded on the finding and not raised."""
    if finding.action in ENDS:
        _end(finding, finding.action)
    if finding.action == "fork":
        _fork(finding, settings)
    if finding.action != "none":
        _notify_soon(finding)


def _end(finding: Finding, how: str) -> None:
    """Pause or stop the run, on behalf of its owner."""
    run = finding.run
    try:
        with transaction.atomic():
            ENDS[how](run.owner, run)
            audit_note(AnonymousUser(), run.project, f"run.{how}", run.pk, by="health", rule=finding.rule)
        _note(finding, f"requested to {how} the run")
    except (TroupeError, PermissionDenied) as error:
        _note(finding, f"could not {how} the run: {error}")


def _fork(finding: Finding, settings: RunHealth) -> None:
    """Fork the run, on behalf of its owner, and stop it if the config requests it."""
    run, made = finding.run, generations(finding.run)
    if made >= settings.fork.generations:
        return _note(
            finding,
            f"did not fork the run: {made} of its ancestors were already forked by rules (health.fork.generations)",
        )
    try:
        fork = finding_fork(run.owner, finding, settings)
    except (TroupeError, PermissionDenied) as error:
        return _note(finding, f"could not fork the run: {error}")
    _note(finding, f"forked it as run {fork.pk} from iteration {fork.iteration}")
    if settings.fork.stop and run.state not in ENDED_STATES:
        _end(finding, "stop")


def _note(finding: Finding, words: str) -> None:
    finding.done = "; ".join(filter(None, [finding.done, words]))
    finding.save(update_fields=["done"])


def _notify_soon(finding: Finding) -> None:
    """Queue a task that sends the messages: a channel may be slow."""
    if not finding.run.project.channels.exists():
        return
    from webapp.health.tasks import notify

    try:
        notify.delay(finding.pk)
    except Exception:
        log.exception("the message about finding %s could not be queued", finding.pk)
