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
    confirm: str = ""
    """Asked before it is done; empty: nothing is asked."""


ACTS = (
    Act(
        "pause",
        "Pause",
        "Complete the iteration, write a checkpoint, end the run and give its devices back; Resume continues from there",
        ("running",),
    ),
    Act(
        "stop",
        "Stop",
        "Complete the iteration, write a checkpoint and end the run; it can be resumed",
        ("queued", "starting", "running"),
        "danger",
    ),
    Act(
        "stop",
        "Stopping …",
        "It completes its iteration, writes a checkpoint and ends",
        ("stopping",),
        "",
        True,
    ),
    Act(
        "end_now",
        "End now",
        "Do not wait for the iteration under way: write a checkpoint of the last completed one, and end",
        ("stopping",),
        "danger",
        confirm="End this run now? What the iteration under way has done is lost. A checkpoint of the last completed "
        "iteration is written if that is possible within a minute.",
    ),
    Act(
        "resume",
        "Resume",
        "Start a new attempt from the last whole checkpoint; the checkpoints tab resumes from an earlier one",
        ("paused", "stopped", "failed"),
        "primary",
    ),
)
