"""The run's state machine: which state may follow which."""

from training_core.errors import TroupeError
from webapp.runs.models import RunState

S = RunState

TRANSITIONS: dict[RunState, frozenset[RunState]] = {
    S.DRAFT: frozenset({S.QUEUED}),
    S.QUEUED: frozenset({S.STARTING, S.STOPPED, S.PAUSED, S.FAILED}),
    S.STARTING: frozenset({S.RUNNING, S.STOPPING, S.QUEUED, S.FINISHED, S.STOPPED, S.PAUSED, S.FAILED}),
    S.RUNNING: frozenset({S.STOPPING, S.QUEUED, S.FINISHED, S.STOPPED, S.PAUSED, S.FAILED}),
    S.STOPPING: frozenset({S.STOPPED, S.PAUSED, S.FINISHED, S.FAILED}),
    S.PAUSED: frozenset({S.QUEUED}),
    S.STOPPED: frozenset({S.QUEUED}),
    S.FAILED: frozenset({S.QUEUED}),
    S.FINISHED: frozenset(),
}
"""queued after starting or running: the attempt was lost and another one will be made."""


RESUMABLE = frozenset({S.PAUSED, S.STOPPED, S.FAILED})
"""From where a person may have it go on."""


class TransitionRefused(TroupeError):
    """A run cannot go from where it is to where it was told to go."""


def allowed(before: str, after: str) -> bool:
    """Whether `after` may follow `before`."""
    return RunState(after) in TRANSITIONS[RunState(before)]


def check(before: str, after: str, what: str) -> None:
    """Raises TransitionRefused, in words for the person who asked for `what`."""
    if not allowed(before, after):
        raise TransitionRefused(f"a run that is {before} cannot be {what}")
