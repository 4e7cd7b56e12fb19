"""Changes to findings: created, updated and resolved by the rules; dismissed and reopened by users.

Severity levels have hysteresis: they are raised at one bound and lowered below a smaller one.
"""

from collections import Counter
from enum import IntEnum

from django.db import transaction
from django.db.models import Max
from pydantic import ValidationError

from training_core.config.health import RunHealth
from training_core.config.kinds import config_kind
from webapp.accounts.audit import audit_note
from webapp.accounts.permissions import Person, require_edit
from webapp.health.actions import finding_act
from webapp.health.input_selectors import health_inputs
from webapp.health.inputs import Found
from webapp.health.models import Checked, Finding
from webapp.health.rules import judge
from webapp.health.selectors import finding_facts
from webapp.runs.events import event_send
from webapp.runs.lifecycle import run_announce, run_locked
from webapp.runs.logs import server_says
from webapp.runs.models import ENDED_STATES, Run


class Level(IntEnum):
    """Severity in increasing order."""

    NONE = 0
    WARNING = 1
    CRITICAL = 2


def level_now(before: Level, measurement: Found, relax: float) -> Level:
    """Return the level of a measurement, given the previous level: a level is kept down to `relax` times its bound."""
    if _reached(measurement.excess, measurement.critical_at, before is Level.CRITICAL, relax):
        return Level.CRITICAL
    return Level.WARNING if _reached(measurement.excess, 1.0, before >= Level.WARNING, relax) else Level.NONE


def _reached(excess: float, bound: float, held: bool, relax: float) -> bool:
    return excess > bound or held and excess >= relax * bound


State, Severity = Finding.State, Finding.Severity


def run_check(run_id: str) -> None:
    """Check a run: create, update and resolve its findings; execute the actions of new ones.

    The rules run before the run's row is locked, so that ingest never waits for them.
    """
    run = Run.objects.select_related("project", "owner").get(pk=run_id)
    settings = settings_of(run)
    observed = health_inputs(run)
    seen = list(judge(settings, observed)) if settings.enabled else []
    with transaction.atomic():
        checked = Checked.objects.filter(run=run).first()
        moved = checked is None or checked.step != observed.latest
        made = _findings_keep(run, settings, seen, moved)
        Checked.objects.update_or_create(
            run=run, defaults={"cursor": run.event_count, "step": observed.latest}
        )
        counts_keep(run)
    for finding in made:
        finding_act(finding, settings)


def settings_of(run: Run) -> RunHealth:
    """Return the health settings of a run; the defaults if its config has none, or is of another version."""
    health = config_kind(run.config).health
    try:
        return health.model_validate(run.config.get("health", {}))
    except ValidationError:
        return health()


def _findings_keep(
    run: Run, settings: RunHealth, seen: list[tuple[str, Found]], moved: bool
) -> list[Finding]:
    """Create, update and resolve findings; returns the new ones. `moved`: metrics have arrived since the last check."""
    findings = {(row.rule, row.key): row for row in run.findings.defer("done")}
    ended = run.state in ENDED_STATES
    made: list[Finding] = []
    changed: list[tuple[Level, Finding]] = []
    for rule, measurement in seen:
        old = findings.pop((rule, measurement.key), None)
        before = _level(old)
        level = level_now(before, measurement, settings.relax)
        if level is Level.NONE and before is Level.NONE:
            continue
        action = settings.rules()[rule].action
        finding = old or Finding(
            run=run, rule=rule, key=measurement.key, first_step=measurement.first, action=action
        )
        _settle(finding, level, settings, at_once=ended or not measurement.series, moved=moved)
        finding.title, finding.evidence = measurement.title[:400], measurement.evidence()
        finding.last_step = max(measurement.last, measurement.first)
        finding.save()
        if old is None:
            made.append(finding)
            event_send("finding.opened", run, finding=finding_facts(finding))
        changed.append((before, finding))
    for gone in findings.values():
        if gone.state == State.OPEN:
            at_once = ended or not gone.evidence.get("series")
            changed.append((_level(gone), gone))
            _settle(gone, Level.NONE, settings, at_once=at_once, moved=moved)
            gone.save(update_fields=["state", "severity", "calm_looks", "changed_at"])
    _lines_write(run, changed)
    return made


def _lines_write(run: Run, changed: list[tuple[Level, Finding]]) -> None:
    """Write lines about findings that were opened, raised or closed to the run's log, under the run's lock."""
    lines = []
    for before, finding in changed:
        now = _level(finding)
        words = f"{finding.severity} finding {finding.rule}: {finding.title}"
        if now is Level.NONE:
            lines.append(("info", f"closed: {words}"))
        elif now > before and finding.state == State.OPEN:
            lines.append(("error" if now is Level.CRITICAL else "warning", words))
    locked = run_locked(run.pk) if lines else None
    if locked is not None:
        attempt = run.attempts.aggregate(number=Max("number"))["number"]
        for level, text in lines:
            server_says(locked, attempt or 0, text, level, source="health")


def _level(finding: Finding | None) -> Level:
    """Return the level of a finding; a dismissed one keeps its level."""
    if finding is None or finding.state == State.RESOLVED:
        return Level.NONE
    return Level.CRITICAL if finding.severity == Severity.CRITICAL else Level.WARNING


def _settle(finding: Finding, level: Level, settings: RunHealth, *, at_once: bool, moved: bool) -> None:
    """Raise the level immediately; lower it only after `looks` consecutive checks below it, so that badges do not flicker."""
    if level >= _level(finding) or finding.pk is None:
        finding.calm_looks = 0
    elif not at_once:
        finding.calm_looks += moved
        if finding.calm_looks < settings.looks:
            return
        finding.calm_looks = 0
    if level is Level.NONE:
        if finding.state == State.OPEN:
            finding.state = State.RESOLVED
        return
    finding.severity = Severity.CRITICAL if level is Level.CRITICAL else Severity.WARNING
    if finding.state == State.RESOLVED:
        finding.state = State.OPEN


def counts_keep(run: Run) -> None:
    """Store the number of open findings by severity on the run; notifies watchers if it has changed."""
    counts = dict(Counter(run.findings.filter(state=State.OPEN).values_list("severity", flat=True)))
    if Run.objects.filter(pk=run.pk).exclude(finding_counts=counts).update(finding_counts=counts):
        run_announce(run)


def finding_dismiss(user: Person, finding: Finding) -> Finding:
    """Dismiss a finding. Raises PermissionDenied."""
    return _move(user, finding, State.DISMISSED, "finding.dismiss")


def finding_reopen(user: Person, finding: Finding) -> Finding:
    """Reopen a finding; the rules resolve it at their next check if the problem is gone. Raises PermissionDenied."""
    return _move(user, finding, State.OPEN, "finding.reopen")


@transaction.atomic
def _move(user: Person, finding: Finding, state: str, act: str) -> Finding:
    require_edit(user, finding.run.project)
    if finding.state != state:
        finding.state = state
        finding.dismissed_by_id = user.pk if state == State.DISMISSED else None
        finding.save()
        audit_note(user, finding.run.project, act, finding.run_id, rule=finding.rule, key=finding.key)
        counts_keep(finding.run)
    return finding
