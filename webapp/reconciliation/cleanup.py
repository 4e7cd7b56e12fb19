"""Cleanup after ended attempts: jobs that still hold devices, tokens of their drivers."""

import logging
from datetime import timedelta

from django.utils import timezone

from webapp.accounts.tokens import run_tokens_revoke
from webapp.runs.models import INACTIVE_STATES, Attempt, Run
from workers.launchers.launcher import JobState, Launcher, LauncherFailure

log = logging.getLogger(__name__)
TOKEN_REST = timedelta(hours=1)
"""Time after a run's end at which its drivers' tokens are revoked."""
EXIT_SECONDS = 30
"""Time between the end of an attempt and the stop of its job."""
LIVE = (JobState.PENDING, JobState.RUNNING)
_over: set[int] = set()
"""Attempts, ended within TOKEN_REST, whose jobs have ended: they are not queried again."""


def jobs_end(launcher: Launcher) -> None:
    """Stop the jobs of attempts that ended a while ago: a driver that hangs after its last report, or is alive after it was
    given up, would hold devices reserved for other runs.
    """
    now = timezone.now()
    ended = Attempt.objects.filter(
        state=Attempt.State.ENDED,
        ended_at__gt=now - TOKEN_REST,
        ended_at__lt=now - timedelta(seconds=EXIT_SECONDS),
    )
    others = Attempt.objects.exclude(shared_job="").exclude(
        state=Attempt.State.ENDED, ended_at__lt=now - timedelta(seconds=EXIT_SECONDS)
    )  # a shared job ends with the last of its runs
    ended = ended.exclude(shared_job__in=others.values("shared_job"))
    waiting = {attempt.pk: attempt.job_id for attempt in ended}
    _over.intersection_update(waiting)
    for pk, job in waiting.items():
        if pk in _over:
            continue
        state = launcher.status(job).state
        if state is JobState.UNKNOWN:
            return  # each further query would wait as long as this one
        if state in LIVE:
            _job_stop(launcher, job)
        else:
            _over.add(pk)


def _job_stop(launcher: Launcher, submission_id: str) -> None:
    log.warning("%s exists after its attempt has ended; stopping it", submission_id)
    try:
        launcher.stop(submission_id)
    except LauncherFailure as error:
        log.warning("%s continues to run: %s", submission_id, error)


def tokens_end() -> None:
    """Revoke tokens some time after a run's end: a disconnected driver still receives "exit" and delivers its last events."""
    over = Run.objects.filter(state__in=INACTIVE_STATES, ended_at__lt=timezone.now() - TOKEN_REST)
    for run in over.filter(ingest_tokens__revoked_at=None, ingest_tokens__isnull=False).distinct():
        run_tokens_revoke(run.pk)
