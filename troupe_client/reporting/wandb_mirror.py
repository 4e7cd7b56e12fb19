"""Mirror what an unmodified program tells Weights & Biases, in its offline mode: `troupe.sync_wandb()`.

W&B does its work first and stays the authority: it checks the arguments and writes the files of media, which are read here.
"""

import _thread
import atexit
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial, wraps
from pathlib import Path
from typing import Any

from training_core.errors import TroupeError
from troupe_client.reporting.client import ClientRun
from troupe_client.reporting.media import Image, Table
from troupe_client.reporting.scalars import number_of
from troupe_client.reporting.wandb_axes import Axes
from troupe_client.reporting.wandb_values import (
    LEVELS,
    MARK,
    config_of,
    crossing,
    run_id_of,
    summary_rest,
    tags_of,
)

logger = logging.getLogger("troupe")
OFFLINE = ("offline", "dryrun", "disabled")
COMPARE = 5.0
"""Seconds between two comparisons of the config with what is reported."""
UNSEEN = ("log_artifact", "log_code", "log_model", "save", "use_artifact")
"""Methods of a run whose effect is not mirrored; a warning names each of them once."""
ONLINE = (
    "troupe.sync_wandb mirrors runs of W&B that are offline, and {}; remove it, or do not call sync_wandb"
)


class MirroredRun:
    """A run of W&B and its run in Troupe, which begins with the first values, because programs complete the config until then."""

    def __init__(self, run: Any, begin: Callable[..., ClientRun], options: dict[str, Any]) -> None:
        self._run, self._begin, self._options = run, begin, options
        self._pid = os.getpid()
        self._mirror: ClientRun | None = None
        self._step = 0
        """W&B's own step: that of the next values without a step."""
        self._axes = Axes()
        self._row: dict[str, Any] = {}
        """Values of W&B's step whose step metric is not logged yet."""
        self._row_step = 0
        self._last = 0
        """Largest step that is reported."""
        self._logged: dict[str, Any] = {}
        """Last value by name."""
        self._config: dict[str, Any] = {}
        self._compared = 0.0
        self._named: set[str] = set()
        self._is_complete = False

    def log(self, data: Mapping[str, Any], step: int | None = None, commit: bool | None = None) -> None:
        """Report what W&B has logged, at the step that W&B gives it."""
        mirror = self._opened()
        if mirror is None or mirror.state != "running":
            return
        at = self._step if step is None else step
        left_out: dict[str, str] = {}
        values = crossing(self._as_in_files(data), Path(self._run.dir), left_out)
        self._logged |= values
        commits = bool(commit or (commit is None and step is None))
        self._report(mirror, values, at, commits=commits, counts=commits or step is not None)
        self._step = max(self._step, at) + commits
        self.leave_out(left_out)
        if time.monotonic() - self._compared > COMPARE:
            self._configure(mirror)
        if mirror.should_stop():  # as W&B does it online
            mirror.finish("stopped")
            if signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, signal.SIG_DFL):
                raise KeyboardInterrupt  # without a handler, as in the background of a script, interrupt_main does nothing
            _thread.interrupt_main()

    def _report(
        self, mirror: ClientRun, values: Mapping[str, Any], at: int, *, commits: bool, counts: bool
    ) -> None:
        """Report values at their steps. Those whose step metric is missing wait until W&B's step `at` is complete."""
        if self._row and at != self._row_step:
            self._report_row(mirror)
        row, self._row_step = {**self._row, **values}, at
        self._row = {} if commits else {name: row[name] for name in self._axes.waiting(row)}
        ready = {name: value for name, value in row.items() if name not in self._row}
        for step, some in self._axes.split(ready, at).items():
            mirror.log(some, step, commit=counts)
            self._last = max(step, self._last)

    def _report_row(self, mirror: ClientRun) -> None:
        row, self._row = self._row, {}
        for step, some in self._axes.split(row, self._row_step).items():
            mirror.log(some, step)
            self._last = max(step, self._last)

    def define(self, name: str, step_metric: Any = None, *_: Any, **__: Any) -> None:
        """Note the metric whose values are the steps of others."""
        self._axes.define(name, str(getattr(step_metric, "name", step_metric) or ""))

    def alert(self, title: str, text: str = "", level: Any = None, *_: Any, **__: Any) -> None:
        """Report an alert."""
        if mirror := self._opened():
            mirror.alert(title, text, LEVELS.get(str(getattr(level, "value", level)), "info"))

    def leave_out(self, kinds: Mapping[str, str]) -> None:
        """Name what is not mirrored in a warning, each name once."""
        new = {name: kind for name, kind in kinds.items() if name not in self._named}
        self._named |= set(new)
        if new:
            named = ", ".join(f"{name} ({kind})" for name, kind in new.items())
            logger.warning("Not mirrored from W&B: %s; docs/use/wandb.md tells what is", named)

    def complete(self) -> None:
        """Report the rest of the summary; a second call does nothing."""
        mirror = self._opened()
        if mirror is None or mirror.state != "running" or self._is_complete:
            return
        self._is_complete = True
        self._report_row(mirror)
        if rest := summary_rest(_plain(self._run.summary), self._logged):
            mirror.log(rest, self._last)
        self._configure(mirror)

    def end(self, code: int, error: BaseException | None) -> None:
        """Report the end, with the exit code of W&B."""
        reason = f"{type(error).__name__}: {error}" if error else f"exit code {code}"
        if self._mirror:
            self._mirror.finish("failed" if code else "finished", reason if code else "")

    def _opened(self) -> ClientRun | None:
        if self._pid != os.getpid():
            self.leave_out({f"values of process {os.getpid()}": "another process than that of wandb.init"})
            return None
        if self._mirror is None:
            run, options = self._run, dict(self._options)
            self._config, self._compared = config_of(self._run.config.as_dict()), time.monotonic()
            tags = [*tags_of(run.project, run.job_type, run.tags), *options.pop("tags", ())]
            described = {"name": run.name or "", "notes": run.notes or "", "group": run.group or ""}
            described |= {"id": run_id_of(run.project, run.id), "config": self._config, "tags": tags}
            if run.settings.resume:
                described["resume"] = "allow"
            self._mirror = self._begin(**(described | options))
            atexit.register(self.complete)  # before W&B and Troupe end the run
            if self._mirror.folder.exists():
                Path(run.settings.sync_dir, MARK).write_text(self._mirror.id)
        return self._mirror

    def _configure(self, mirror: ClientRun) -> None:
        """Report what the program has changed in its config."""
        self._compared, now = time.monotonic(), config_of(self._run.config.as_dict())
        if now == self._config or "config" in self._options:
            return
        self._config = now
        try:
            mirror.configure(now)
        except TroupeError as error:
            self.leave_out({"changes of the config": str(error)})

    def _as_in_files(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return logged values in the form of W&B's files."""
        out: dict[str, Any] = {}
        for key, value in data.items():
            if hasattr(value, "spec") and hasattr(value, "table"):  # a chart of wandb.plot
                key, value = value.spec.table_key, value.table
            out[key] = self._as_in_file(value)
        return out

    def _as_in_file(self, value: Any) -> Any:
        import wandb

        if isinstance(value, Mapping):
            return self._as_in_files(value)
        if isinstance(value, wandb.Histogram | wandb.Image | wandb.Table):
            return value.to_json(self._run)
        if isinstance(value, list | tuple) and value and all(isinstance(item, wandb.Image) for item in value):
            return wandb.Image.seq_to_json(value, self._run, "", 0)
        if kind := getattr(value, "_log_type", None):
            return {"_type": kind}
        if hasattr(value, "savefig"):  # matplotlib
            return Image(value)
        if hasattr(value, "itertuples"):  # pandas
            return Table(value)
        return value if isinstance(value, str) or (number := number_of(value)) is None else number


def _plain(summary: Any) -> dict[str, Any]:
    """Return a summary of W&B, whose parts are no mappings, as mappings."""
    items = {key: summary[key] for key in summary.keys()}  # noqa: SIM118
    return {key: _plain(value) if hasattr(value, "keys") else value for key, value in items.items()}


def _unseen(method: str, mirrored: MirroredRun, /, *args: Any, **_: Any) -> None:
    """Name a method that is not mirrored; W&B itself stores a copy of each table as an artifact."""
    if not args or type(args[0]).__name__ != "InternalArtifact":
        mirrored.leave_out({method: "no counterpart"})


class Mirror:
    """Runs of W&B in this process, and its functions that are replaced."""

    def __init__(self, begin: Callable[..., ClientRun]) -> None:
        self.begin = begin
        self.options: dict[str, Any] = {}
        self._runs: dict[str, MirroredRun] = {}

    def of(self, run: Any) -> MirroredRun:
        """The run in Troupe of a run of W&B. Raises TroupeError if that is online."""
        if not run.offline:
            raise TroupeError(ONLINE.format("this run is online"))
        if run.id not in self._runs:
            self._runs[run.id] = MirroredRun(run, self.begin, self.options)
        return self._runs[run.id]

    def install(self) -> None:
        """Replace the functions of W&B. Raises TroupeError without W&B, and if it is online."""
        mode = os.environ.get("WANDB_MODE", "").strip() or "offline"
        if mode not in OFFLINE:
            raise TroupeError(ONLINE.format(f"WANDB_MODE is {mode}"))
        os.environ["WANDB_MODE"] = mode
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # reports to its vendor, even offline
        try:
            import wandb
        except ImportError as error:
            raise TroupeError("sync_wandb needs W&B: pip install wandb") from error
        if wandb.run is not None:
            self.of(wandb.run)
        wandb.init = self._init(wandb.init)
        run: Any = wandb.Run
        run._finish = self._finish(run._finish)
        run._log = self._then(run._log, MirroredRun.log)
        run.alert = self._then(run.alert, MirroredRun.alert)
        run.define_metric = self._then(run.define_metric, MirroredRun.define)
        for name in UNSEEN:
            setattr(run, name, self._then(getattr(run, name), partial(_unseen, f"wandb.{name}")))

    def _init(self, original: Any) -> Any:
        @wraps(original)
        def init(*args: Any, **options: Any) -> Any:
            mode = options.get("mode") or os.environ["WANDB_MODE"]
            if mode not in OFFLINE:
                raise TroupeError(ONLINE.format(f"wandb.init has mode={mode!r}"))
            return original(*args, **(options | {"mode": mode}))

        return init

    def _then(self, original: Any, report: Callable[..., None]) -> Any:
        """Return a method that calls W&B's, then reports the call with the same arguments."""

        @wraps(original)
        def method(run: Any, *args: Any, **options: Any) -> Any:
            result = original(run, *args, **options)
            if not run.disabled:
                report(self.of(run), *args, **options)
            return result

        return method

    def _finish(self, original: Any) -> Any:
        @wraps(original)
        def finish(run: Any, *args: Any, **options: Any) -> None:
            if run.disabled or run._is_finished:
                original(run, *args, **options)
                return
            mirrored, error = self.of(run), sys.exc_info()[1]
            mirrored.complete()
            try:
                original(run, *args, **options)
            finally:
                mirrored.end(run._exit_code or 0, error)
                del self._runs[run.id]

        return finish


_mirror: Mirror | None = None


def mirror(begin: Callable[..., ClientRun], options: dict[str, Any]) -> None:
    """Mirror the runs of this process; a second call replaces the options. Raises TroupeError without W&B, and if it is online."""
    global _mirror
    if _mirror is None:
        made = Mirror(begin)
        made.install()
        _mirror = made
    _mirror.options = options
