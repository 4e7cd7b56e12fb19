"""Actions on a new finding, executed once, and the notes about them."""

from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.db import transaction

from training_core.config.health import RunHealth
from training_core.errors import TroupeError
from webapp.accounts.audit import audit_note
from webapp.health.forking import finding_fork, generations
from webapp.health.models import Finding
from webapp.notifications.models import Delivery
from webapp.runs.models import ENDED_STATES
from webapp.scheduling import services as runs

ENDS: dict[str, Any] = {"pause": runs.run_pause, "stop": runs.run_stop}


def finding_act(finding: Finding, settings: RunHealth) -> None:
    """Execute the action of the finding's rule; a failure is recorded on the finding and not raised."""
    if finding.action in ENDS:
        _end(finding, finding.action)
    if finding.action == "fork":
        _fork(finding, settings)


def _end(finding: Finding, how: str) -> None:
    """Pause or stop the run, on behalf of its owner."""
    run = finding.run
    try:
        with transaction.atomic():
            ENDS[how](run.owner, run)
            audit_note(AnonymousUser(), run.project, f"run.{how}", run.pk, by="health", rule=finding.rule)
        finding_note(finding, f"requested to {how} the run")
    except (TroupeError, PermissionDenied) as error:
        finding_note(finding, f"could not {how} the run: {error}")


def _fork(finding: Finding, settings: RunHealth) -> None:
    """Fork the run, on behalf of its owner, and stop it if the config requests it."""
    run, made = finding.run, generations(finding.run)
    if made >= settings.fork.generations:
        return finding_note(
            finding,
            f"did not fork the run: {made} of its ancestors were already forked by rules (health.fork.generations)",
        )
    try:
        fork = finding_fork(run.owner, finding, settings)
    except (TroupeError, PermissionDenied) as error:
        return finding_note(finding, f"could not fork the run: {error}")
    finding_note(finding, f"forked it as run {fork.pk} from iteration {fork.iteration}")
    if settings.fork.stop and run.state not in ENDED_STATES:
        _end(finding, "stop")


def finding_note(finding: Finding, words: str) -> None:
    """Append to what was done. The row is locked: deliveries of messages append at the same time."""
    with transaction.atomic():
        done = Finding.objects.select_for_update().values_list("done", flat=True).get(pk=finding.pk)
        finding.done = "; ".join(dict.fromkeys(filter(None, [*done.split("; "), words])))
        finding.save(update_fields=["done"])


def delivery_note(delivery: Delivery, **_: Any) -> None:
    """Receiver of `delivery_ended`: note on a finding whose action is a message whether it was delivered."""
    facts = delivery.payload.get("finding", {})
    finding = (
        Finding.objects.select_related("run__project").defer("run__facts").filter(pk=facts.get("id")).first()
    )
    if finding is None or finding.action == "none":
        return
    name, sent = delivery.destination.name, delivery.state == Delivery.State.DELIVERED
    finding_note(finding, f"notified {name}" if sent else f"could not reach {name}")
    details = {"rule": finding.rule, "channels": [name] * sent, "missed": [name] * (not sent)}
    audit_note(AnonymousUser(), finding.run.project, "finding.notify", finding.run_id, **details)
