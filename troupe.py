"""Report from any training program to Troupe, by the names that people know.

    import troupe

    troupe.init(project="team", name="trl grpo", config={"lr": 1e-5})
    for step in range(1000):
        troupe.log({"train/reward": reward, "loss": loss})
        troupe.log_episode([{"role": "user", ...}, {"role": "assistant", ...}], reward=1.0, success=True)
        if troupe.should_stop():
            break
    troupe.finish()

Environment: TROUPE_URL, TROUPE_TOKEN, TROUPE_PROJECT, TROUPE_RUN_ID, TROUPE_RUN_GROUP, TROUPE_MODE (online, offline,
disabled), TROUPE_DIR. Importing this loads neither Ray, torch nor Django.
"""

import atexit
import functools
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from troupe_client.reporting.client import ClientRun, run_begin

__all__ = [
    "ClientRun",
    "alert",
    "finish",
    "init",
    "log",
    "log_episode",
    "run",
    "should_stop",
    "trainer_callback",
]

run: ClientRun | None = None
"""The run of this process, between `init` and `finish`."""
_crash = ""


@functools.wraps(run_begin)
def init(*args: Any, **options: Any) -> ClientRun:
    """Begin this process's run; one that is still open is finished first."""
    global run
    finish()
    if not _hooked:
        _hook()
    run = run_begin(*args, **options)
    return run


def log(values: Mapping[str, Any], step: int | None = None, *, commit: bool = True) -> None:
    """Scalars of one step; see ClientRun.log."""
    _current().log(values, step, commit=commit)


def log_episode(*args: Any, **fields: Any) -> None:
    """A transcript; see ClientRun.log_episode."""
    _current().log_episode(*args, **fields)


def alert(*args: Any, **fields: Any) -> None:
    """A line that people should see; see ClientRun.alert."""
    _current().alert(*args, **fields)


def should_stop() -> bool:
    """Whether somebody pressed Stop on the run's page."""
    return _current().should_stop()


def finish(status: Any = "finished", message: str = "") -> bool:
    """End this process's run, if one is open; whether all of it reached the server."""
    global run
    ending, run = run, None
    return ending.finish(status, message) if ending else True


def trainer_callback(**options: Any) -> Any:
    """A callback for transformers' and TRL's trainers: `Trainer(..., callbacks=[troupe.trainer_callback()])`.

    `options` are those of `init`; only the world's first process reports.
    """
    from troupe_client.reporting.trainer import TroupeCallback

    return TroupeCallback(init, options)


def _current() -> ClientRun:
    if run is None:
        raise RuntimeError("no run is open: call troupe.init() first")
    return run


_hooked = False


def _hook() -> None:
    """End the run with the program: as failed when an exception ends it."""
    global _hooked
    _hooked = True
    before = sys.excepthook

    def noted(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        global _crash
        _crash = f"{kind.__name__}: {error}"
        before(kind, error, trace)

    sys.excepthook = noted
    atexit.register(lambda: finish("failed" if _crash else "finished", _crash))
