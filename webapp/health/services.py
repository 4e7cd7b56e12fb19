"""Findings: created, updated and resolved by the rules, dismissed and reopened by users; their actions and forks.

Severity levels have hysteresis: they are raised at one bound and lowered below a smaller one.
"""

from collections import Counter
from collections.abc import Mapping
from enum import IntEnum
from math import isfinite
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Case, IntegerField, Max, Value, When
from django.http import Http404
from django.urls import reverse
from pydantic import ValidationError

from training_core.config.files import parse_overrides
from training_core.config.health import RunHealth, SuccessFell
from training_core.config.kinds import config_kind
from training_core.errors import ConfigError, TroupeError
from troupe_client.documents import health as documents
from webapp.accounts.audit import audit_note
from webapp.accounts.permissions import Person, require_edit
from webapp.checkpoints.models import Checkpoint
from webapp.health.answers import edits_to_try, episodes_to_read
from webapp.health.checks.success import success_lost
from webapp.health.inputs import Found, HealthInputs, health_inputs
from webapp.health.measures import measures_kept
from webapp.health.models import Checked, Finding
from webapp.health.rules import RULES, measure
from webapp.notifications.models import Delivery
from webapp.runs.lifecycle import event_send, run_announce, run_locked
from webapp.runs.logs import server_says
from webapp.runs.models import ENDED_STATES, Run
from webapp.runs.selectors import run_get
from webapp.runs.states import TransitionRefused
from webapp.scheduling import services as runs
from webapp.scheduling.forking import run_fork, run_launch_again

ENDS: dict[str, Any] = {"pause": runs.run_pause, "stop": runs.run_stop}
State, Severity = Finding.State, Finding.Severity
_ORDER = Case(
    When(state="open", severity="critical", then=Value(0)),
    When(state="open", then=Value(1)),
    When(state="dismissed", then=Value(2)),
    default=Value(3),
    output_field=IntegerField(),
)


def findings_read(run: Run) -> list[Finding]:
    """Return findings, open ones first, the most severe at the top."""
    return list(run.findings.select_related("dismissed_by").order_by(_ORDER, "-last_step", "rule", "key"))


def finding_get(user: Person, run_id: str, pk: int) -> Finding:
    """Return one finding. Raises Http404."""
    finding = (
        Finding.objects.filter(run=run_get(user, run_id), pk=pk)
        .select_related("run__project", "dismissed_by")
        .first()
    )
    if finding is None:
        raise Http404(f"the run {run_id} has no finding {pk}")
    return finding


def finding_facts(finding: Finding) -> dict[str, Any]:
    """Return the finding's part of its event."""
    rule = RULES[finding.rule]
    return {
        "id": finding.pk,
        "rule": finding.rule,
        "key": finding.key,
        "severity": finding.severity,
        "title": finding.title,
        "first_step": finding.first_step,
        "action": finding.action,
        "cause": rule.cause,
        "remedy": rule.remedy,
        "page": settings.TROUPE_PUBLIC_URL + reverse("health:page", args=[finding.run_id]),
    }


def finding_document(finding: Finding) -> documents.Finding:
    """Return the document of a finding of `findings_read`."""
    rule = RULES.get(finding.rule)
    return documents.Finding.of_row(
        finding,
        figures=dict(finding.evidence.get("figures", [])),
        series=finding.evidence.get("series", []),
        cause=rule.cause if rule else "",
        remedy=rule.remedy if rule else "",
        fork=finding.fork_id,
        episodes=episodes_to_read(finding),
        edits=_edits_of(settings_of(finding.run), finding),
        dismissed_by=finding.dismissed_by.username if finding.dismissed_by else None,
        curves=reverse("runs:curves", args=[finding.run_id]),
    )


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
    return excess > bound or held and isfinite(bound) and excess >= relax * bound


def run_check(run_id: str) -> None:
    """Judge each step since the last check: create, update and resolve findings; execute the actions of new ones.

    The rules run before the run's row is locked, so that ingest never waits for them.
    """
    run = Run.objects.select_related("project", "owner").get(pk=run_id)
    settings = settings_of(run)
    observed = health_inputs(run)
    checked = Checked.objects.filter(run=run).first()
    moved = checked is None or checked.step != observed.latest
    moments = observed.since(checked.step if checked else -1)
    seen = [list(measure(settings, moment)) if settings.enabled else [] for moment in moments]
    measures = measures_kept(checked.measures if checked else {}, seen)
    with transaction.atomic():
        made: list[Finding] = []
        for moment, measurements in zip(moments[:-1], seen[:-1], strict=True):
            made += _findings_keep(run, settings, moment, measurements, moved=True, ended=False)
        ended = run.state in ENDED_STATES
        made += _findings_keep(run, settings, moments[-1], seen[-1], moved=moved, ended=ended)
        Checked.objects.update_or_create(
            run=run, defaults={"cursor": run.event_count, "step": observed.latest, "measures": measures}
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
    run: Run,
    settings: RunHealth,
    moment: HealthInputs,
    seen: list[tuple[str, Found]],
    *,
    moved: bool,
    ended: bool,
) -> list[Finding]:
    """Create, update and resolve findings; returns the new ones.

    moved: the measurements are of another step than those before. ended: they are the last of the run.
    """
    findings = {(row.rule, row.key): row for row in run.findings.defer("done")}
    made: list[Finding] = []
    changed: list[tuple[Level, Finding]] = []
    for rule, measurement in seen:
        old = findings.pop((rule, measurement.key), None)
        before = _level(old)
        level = level_now(before, measurement, settings.relax)
        if level is Level.NONE and before is Level.NONE:
            continue
        if level is Level.NONE and old is not None:
            findings[rule, measurement.key] = old
            continue
        action = settings.rules()[rule].action
        finding = old or Finding(
            run=run,
            rule=rule,
            key=measurement.key,
            first_step=measurement.first,
            opened_step=measurement.last,
            action=action,
        )
        if level is Level.CRITICAL:
            finding.critical_first = (
                measurement.first if finding.critical_first is None else finding.critical_first
            )
            finding.critical_last = measurement.last
        level = max(level, _harm(finding, level, settings, moment))
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
            _settle(gone, _harm(gone, Level.NONE, settings, moment), settings, at_once=at_once, moved=moved)
            gone.save(update_fields=["state", "severity", "calm_looks", "lasting", "changed_at"])
    _lines_write(run, changed)
    return made


def _harm(finding: Finding, level: Level, settings: RunHealth, moment: HealthInputs) -> Level:
    """Return the level that a finding keeps because of its harm: CRITICAL, with the harm in `lasting`, if it was critical and
    the success that was lost since then has not come back.
    """
    bounds = settings.rules().get("success_fell")
    harmful = RULES[finding.rule].harms if finding.rule in RULES else False
    finding.lasting = ""
    if (
        harmful
        and level < Level.CRITICAL
        and finding.critical_first is not None
        and isinstance(bounds, SuccessFell)
    ):
        finding.lasting = success_lost(moment, finding.critical_first, bounds)[:200]
    return Level.CRITICAL if finding.lasting else Level.NONE


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
    start = f"from iteration {fork.iteration}" if fork.parent_id == run.pk else "from its start"
    finding_note(finding, f"forked it as run {fork.pk} {start}")
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


@transaction.atomic
def finding_fork(
    user: Person, finding: Finding, settings: RunHealth, overrides: Mapping[str, Any] | None = None
) -> Run:
    """Create a queued fork for a finding; once per finding. Without `overrides`, with the edits of the finding's rule, or
    those to try first.
    A run that had written no checkpoint before the finding is launched again.

    Raises ConfigError (edits, or none), PermissionDenied, TransitionRefused (already forked, no checkpoint).
    """
    held = (
        Finding.objects.select_for_update(of=("self",))
        .select_related("run__project")
        .defer("run__facts")
        .get(pk=finding.pk)
    )
    if held.fork_id:
        raise TransitionRefused(f"run {held.fork_id} was already forked for this finding")
    edits = dict(overrides or _edits_of(settings, held))
    if not edits:
        raise ConfigError(
            {
                "overrides": "give at least one change; without edits the fork repeats the run with the same problem"
            }
        )
    checkpoint = checkpoint_for(held, settings.fork.checkpoint)
    name = f"{held.run.name[:80]} after {held.rule.replace('_', ' ')}"
    fork = (
        run_fork(user, checkpoint, edits, name)
        if checkpoint
        else run_launch_again(user, held.run, edits, name)
    )
    held.fork = fork
    held.save(update_fields=["fork"])
    finding.fork = fork
    audit_note(user, held.run.project, "finding.fork", held.run_id, rule=held.rule, key=held.key, run=fork.pk)
    return fork


def _edits_of(settings: RunHealth, finding: Finding) -> dict[str, Any]:
    """Return the changes of a fork for a finding: those that the config gives its rule, otherwise those to try first."""
    return parse_overrides(fork_edits(settings, finding.rule)) or edits_to_try(finding)


def fork_edits(settings: RunHealth, rule: str) -> tuple[str, ...]:
    """Return the edits of a fork for a finding of this rule; empty for a rule of another version of Troupe."""
    rule_settings = settings.rules().get(rule)
    return rule_settings.fork_edits if rule_settings else ()


def checkpoint_for(finding: Finding, which: str) -> Checkpoint | None:
    """Return the checkpoint to start from: `good`, the last before the finding's first step, or `best`; None if the run had
    not written one before the finding. Raises TransitionRefused if those that it had written are deleted or damaged.
    """
    there = finding.run.checkpoints.filter(removed=False, damaged="")
    best = there.filter(best=True).first() if which == "best" else None
    good = there.filter(iteration__lt=finding.first_step).order_by("-iteration", "-pk").first()
    if best or good:
        return best or good
    if finding.run.checkpoints.filter(iteration__lt=finding.first_step).exists():
        raise TransitionRefused(
            f"the checkpoints before step {finding.first_step} are deleted or damaged; keep more of them (checkpoint.keep)"
        )
    return None


def generations(run: Run) -> int:
    """Return the number of forks for findings that lead to this run, and of launches again for them."""
    count, here = 0, run
    while True:
        answered = here.findings_answered.select_related("run").first()
        count += answered is not None
        before = answered.run if answered else here.parent
        if before is None:
            return count
        here = before
