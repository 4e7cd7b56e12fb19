"""Report from any training program to Troupe.

    import troupe

    troupe.init(project="team", name="trl grpo", config={"lr": 1e-5})
    for step in range(1000):
        troupe.log({"train/reward": reward, "loss": loss})
        troupe.log_episode([{"role": "user", ...}, {"role": "assistant", ...}], reward=1.0, success=True)
        if troupe.should_stop():
            break
    troupe.finish()

Or play the episodes of a run with an agent of any framework: troupe.play_episodes(run_id, play). Or read stored runs as data frames
and charts: troupe.runs("eval/success > 0.8").

Environment: TROUPE_URL, TROUPE_TOKEN, TROUPE_PROJECT, TROUPE_RUN_ID, TROUPE_RUN_GROUP, TROUPE_MODE (online, offline,
disabled), TROUPE_DIR. Importing this loads neither Ray, torch nor Django.
"""

import functools
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from training_core.errors import TroupeError
from troupe_client.reporting.client import PATIENCE, ClientRun, run_begin
from troupe_client.reporting.media import Histogram, Image, Table, Text
from troupe_client.reporting.program_end import ProgramEnd

if TYPE_CHECKING:
    from troupe_client.playing import OpenEpisode, Played, play_episodes
    from troupe_client.reading import StoredRun, runs

_ON_USE = dict.fromkeys(("OpenEpisode", "Played", "play_episodes"), "troupe_client.playing") | dict.fromkeys(
    ("StoredRun", "runs"), "troupe_client.reading"
)
"""Names whose modules a program that only reports does not import."""

__all__ = [
    "ClientRun",
    "Histogram",
    "Image",
    "OpenEpisode",
    "Played",
    "StoredRun",
    "Table",
    "Text",
    "alert",
    "finish",
    "init",
    "log",
    "log_episode",
    "play_episodes",
    "run",
    "runs",
    "should_stop",
    "sync_wandb",
    "trainer_callback",
]

run: ClientRun | None = None
"""The run of this process, between `init` and `finish`."""
_end: ProgramEnd | None = None
_pid = 0
"""The process of `_end`; a forked child has none."""


def __getattr__(name: str) -> Any:
    if name not in _ON_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ON_USE[name]), name)


@functools.wraps(run_begin)
def init(*args: Any, **options: Any) -> ClientRun:
    """Start the run of this process and print its link; an open run is finished first."""
    global run
    finish()
    _watch_end()
    try:
        run = run_begin(*args, **options)
    except TroupeError as error:
        raise error.with_traceback(None) from None  # a script's traceback ends at its call of init
    if run.url:
        sys.stderr.write(f"Troupe run {run.id}: {run.url}\n")
    return run


def log(values: Mapping[str, Any], step: int | None = None, *, commit: bool = True) -> None:
    """Report scalars and media of one step; see ClientRun.log."""
    _current().log(values, step, commit=commit)


def log_episode(*args: Any, **fields: Any) -> None:
    """Report a transcript; see ClientRun.log_episode."""
    _current().log_episode(*args, **fields)


def alert(*args: Any, **fields: Any) -> None:
    """Write a line to the run's log; see ClientRun.alert."""
    _current().alert(*args, **fields)


def should_stop() -> bool:
    """Return whether a person pressed Stop on the run's page."""
    return _current().should_stop()


def finish(status: Any = "finished", message: str = "", timeout: float = 30.0) -> bool:
    """End the open run, if any. Returns whether the server, or offline the disk, has all of it; see ClientRun.finish."""
    global run
    finished, run = run, None
    return finished.finish(status, message, timeout) if finished else True


def trainer_callback(**options: Any) -> Any:
    """Return a callback for transformers' and TRL's trainers: `Trainer(..., callbacks=[troupe.trainer_callback()])`.

    It reports to the open run, and starts one with `options`, those of `init`, if there is none. In distributed training only
    rank 0 reports.
    """
    from troupe_client.reporting.trainer import TroupeCallback

    return TroupeCallback(init, lambda: run, options)


def sync_wandb(**options: Any) -> None:
    """Mirror the runs of Weights & Biases of this program, which stay offline: call it before `wandb.init`.

    `options` are those of `init`; they replace what the program tells W&B. Raises TroupeError if W&B is missing or online.
    """
    from troupe_client.reporting.wandb_mirror import mirror

    def begin(**described: Any) -> ClientRun:
        """Begin a run; if the process has an open one, not as its own."""
        return run_begin(**described) if run and run.state == "running" else init(**described)

    mirror(begin, options)


def _current() -> ClientRun:
    if run is None:
        raise RuntimeError("no run is open; call troupe.init() first")
    if _end:
        _end.forget_exit()
    return run


def _watch_end() -> None:
    """Finish the run when the program ends, as failed if an error, an exit code or a signal ends it."""
    global _end, _pid
    if _pid == os.getpid():
        return
    _pid = os.getpid()
    _end = ProgramEnd(lambda reason: finish("failed" if reason else "finished", reason, PATIENCE))
    _end.watch()
