"""What its people may do to a run, by state."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Act:
    """A button above a run."""

    name: str
    label: str
    help: str
    states: tuple[str, ...]
    style: str = ""
    disabled: bool = False


ACTS = (
    Act(
        "pause",
        "Pause",
        "Write a checkpoint, end the run and give its devices back; resume goes on from there",
        ("running",),
    ),
    Act(
        "stop",
        "Stop",
        "Write a checkpoint and end the run; it can be resumed",
        ("queued", "starting", "running"),
        "danger",
    ),
    Act("stop", "Stopping …", "It writes a checkpoint and ends", ("stopping",), "", True),
    Act(
        "resume",
        "Resume",
        "Go on from the last checkpoint, in a new attempt",
        ("paused", "stopped", "failed"),
        "primary",
    ),
)
