"""The run's state machine: the allowed transitions."""

from collections.abc import Mapping
from typing import Any

from training_core.errors import TroupeError
from webapp.runs.models import Run, RunState

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
"""Of runs that Troupe launches. Queued after starting or running: the attempt was lost, and another one follows."""
CLIENT_TRANSITIONS: dict[RunState, frozenset[RunState]] = {
    S.RUNNING: frozenset({S.STOPPING, S.FINISHED, S.STOPPED, S.PAUSED, S.FAILED}),
    S.STOPPING: frozenset({S.RUNNING, S.FINISHED, S.STOPPED, S.PAUSED, S.FAILED}),
    S.PAUSED: frozenset({S.RUNNING}),
    S.STOPPED: frozenset({S.RUNNING}),
    S.FAILED: frozenset({S.RUNNING}),
    S.FINISHED: frozenset({S.RUNNING}),
}
"""Transitions of client runs, which their program can continue at any time."""
STATE_AFTER = {"stop": S.STOPPED, "pause": S.PAUSED}
"""Request -> the state in which the run ends."""
RESUMABLE = frozenset({S.PAUSED, S.STOPPED, S.FAILED})
"""States from which a person may resume a run."""


class TransitionRefused(TroupeError):
    """The requested state cannot follow the current one."""

    document: Mapping[str, Any] = {}
    """Fields of the response besides `detail`."""


def allowed(run: Run, state: RunState) -> bool:
    """Whether `state` is the run's state or may follow it."""
    table = CLIENT_TRANSITIONS if run.is_custom else TRANSITIONS
    return state == run.state or state in table.get(RunState(run.state), ())


def check(run: Run, state: RunState, what: str = "") -> None:
    """Raises TransitionRefused with a message for the user who requested `what`."""
    if not allowed(run, state):
        raise TransitionRefused(f"a run that is {run.state} cannot be {what or state}")
