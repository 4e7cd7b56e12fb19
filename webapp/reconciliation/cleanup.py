"""What ended attempts leave behind: jobs that keep their devices, tokens of their drivers."""

import logging
from datetime import timedelta

from django.utils import timezone

from webapp.accounts.tokens import run_tokens_revoke
from webapp.runs.models import ENDED_STATES, Attempt, Run, RunState
from workers.launchers.launcher import JobState, Launcher, LauncherFailure

log = logging.getLogger(__name__)
TOKEN_REST = timedelta(hours=1)
"""How long after a run's end its drivers' tokens still work."""
EXIT_SECONDS = 30
"""How long a driver may take to leave after its attempt has ended."""
LIVE = (JobState.PENDING, JobState.RUNNING)
_over: set[int] = set()
"""Attempts, ended within TOKEN_REST, whose jobs are known to have ended too: nobody asks for them again."""


def jobs_end(launcher: Launcher) -> None:
    """Stop the jobs of attempts that ended a while ago: a driver that hangs after its last word, or was given up and
    lives, would hold devices that others were promised.
    """
    now = timezone.now()
    ended = Attempt.objects.filter(
        state=Attempt.State.ENDED,
        ended_at__gt=now - TOKEN_REST,
        ended_at__lt=now - timedelta(seconds=EXIT_SECONDS),
    )
    waiting = dict(ended.values_list("pk", "submission_id"))
    _over.intersection_update(waiting)
    for pk, submission_id in waiting.items():
        if pk in _over:
            continue
        state = launcher.status(submission_id).state
        if state is JobState.UNKNOWN:
            return  # each question would wait for an answer as long as this one did
        if state in LIVE:
            _job_stop(launcher, submission_id)
        else:
            _over.add(pk)


def _job_stop(launcher: Launcher, submission_id: str) -> None:
    log.warning("%s is there after its attempt has ended; it is stopped", submission_id)
    try:
        launcher.stop(submission_id)
    except LauncherFailure as error:
        log.warning("%s goes on: %s", submission_id, error)


def tokens_end() -> None:
    """A driver's token outlives its run for a while: one that was cut off is told to exit, and says its last words."""
    over = Run.objects.filter(
        state__in=(*ENDED_STATES, RunState.PAUSED), ended_at__lt=timezone.now() - TOKEN_REST
    )
    for run in over.filter(ingest_tokens__revoked_at=None, ingest_tokens__isnull=False).distinct():
        run_tokens_revoke(run.pk)
