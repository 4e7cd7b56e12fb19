"""Writing findings: made, kept up and resolved by the rules; dismissed and reopened by people."""

from collections import Counter
from functools import partial

from django.core.exceptions import PermissionDenied
from django.db import transaction
from pydantic import ValidationError

from training_core.config.health import Health
from webapp.accounts.audit import audit_note
from webapp.accounts.models import User
from webapp.accounts.permissions import Person, can_edit
from webapp.health.actions import finding_act
from webapp.health.models import Checked, Finding
from webapp.health.observed import Found
from webapp.health.observing import run_observe
from webapp.health.rules import judge
from webapp.live.services import hint
from webapp.runs.models import Run

State = Finding.State


def run_check(run_id: str) -> None:
    """Judge a run by what has come so far: findings are made, kept up, resolved; new ones have their action.

    The rules look before the run's row is locked, so that ingest never waits for them.
    """
    run = Run.objects.select_related("project", "owner").get(pk=run_id)
    settings = settings_of(run)
    seen = list(judge(settings, run_observe(run))) if settings.enabled else []
    with transaction.atomic():
        made = _findings_keep(run, settings, seen)
        Checked.objects.update_or_create(run=run, defaults={"cursor": run.event_count})
        counts_keep(run)
    for finding in made:
        finding_act(finding, settings)


def settings_of(run: Run) -> Health:
    """The rules of a run; the defaults where its config knows none, or another version's."""
    try:
        return Health.model_validate(run.config.get("health", {}))
    except ValidationError:
        return Health()


def _findings_keep(run: Run, settings: Health, seen: list[tuple[str, Found]]) -> list[Finding]:
    """Those that are new."""
    known = {(each.rule, each.key): each for each in run.findings.all()}
    made = []
    for rule, found in seen:
        old = known.pop((rule, found.key), None)
        action = settings.rules()[rule].action
        finding = old or Finding(run=run, rule=rule, key=found.key, first_step=found.first, action=action)
        finding.severity, finding.title = found.severity, found.title[:400]
        finding.last_step, finding.evidence = max(found.last, found.first), found.evidence()
        if finding.state == State.RESOLVED:
            finding.state = State.OPEN
        finding.save()
        if old is None:
            made.append(finding)
    for gone in known.values():
        if gone.state == State.OPEN:
            gone.state = State.RESOLVED
            gone.save(update_fields=["state", "changed_at"])
    return made


def counts_keep(run: Run) -> None:
    """Open findings by severity, on the run; whoever watches looks again where they have changed."""
    counts = dict(Counter(run.findings.filter(state=State.OPEN).values_list("severity", flat=True)))
    if Run.objects.filter(pk=run.pk).exclude(finding_counts=counts).update(finding_counts=counts):
        transaction.on_commit(partial(hint, run.pk, run.event_count))


def finding_dismiss(user: Person, finding: Finding) -> Finding:
    """Hear no more of it. Raises PermissionDenied."""
    return _move(user, finding, State.DISMISSED, "finding.dismiss")


def finding_reopen(user: Person, finding: Finding) -> Finding:
    """Count it again; the rules resolve it at their next look if it is over. Raises PermissionDenied."""
    return _move(user, finding, State.OPEN, "finding.reopen")


@transaction.atomic
def _move(user: Person, finding: Finding, state: str, act: str) -> Finding:
    if not isinstance(user, User) or not can_edit(user, finding.run.project):
        raise PermissionDenied("you may only read this project; ask an owner for the editor level")
    if finding.state != state:
        finding.state = state
        finding.dismissed_by = user if state == State.DISMISSED else None
        finding.save()
        audit_note(user, finding.run.project, act, finding.run_id, rule=finding.rule, key=finding.key)
        counts_keep(finding.run)
    return finding
