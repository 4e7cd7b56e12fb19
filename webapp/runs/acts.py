"""Actions of a run's page, by state."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Act:
    """A button of a run's page."""

    name: str
    label: str
    help: str
    states: tuple[str, ...]
    """States in which it is shown; "pausing" is a stopping run with a requested pause."""
    style: str = ""
    disabled: bool = False
    confirm: str = ""
    """Text of the confirmation dialog; empty: no dialog."""


ACTS = (
    Act(
        "pause",
        "Pause",
        "Complete the iteration, write a checkpoint, end the run and release its devices; Resume continues from there",
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
        "The run completes its iteration, writes a checkpoint and ends",
        ("stopping",),
        "",
        True,
    ),
    Act(
        "pause",
        "Pausing …",
        "The run completes its iteration, writes a checkpoint and ends; Resume continues from there",
        ("pausing",),
        "",
        True,
    ),
    Act(
        "end_now",
        "End now",
        "Do not wait for the current iteration: write a checkpoint of the last completed one, and end",
        ("stopping", "pausing"),
        "danger",
        confirm="End this run now? The work of the current iteration is lost. A checkpoint of the last completed "
        "iteration is written if possible within a minute.",
    ),
    Act(
        "resume",
        "Resume",
        "Start a new attempt from the last intact checkpoint; the checkpoints tab resumes from an earlier one",
        ("paused", "stopped", "failed"),
        "primary",
    ),
)

PROGRAM_ACTS = (
    Act("stop", "Stop", "Request the program to end: its should_stop() is true", ("running",), "danger"),
    Act("stop", "Stopping …", "The program has been requested to end", ("stopping",), "", True),
)
"""Actions of the run of a custom program, which the server neither pauses, ends nor starts again."""
