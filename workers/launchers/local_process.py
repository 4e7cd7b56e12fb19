"""Runs as child processes on this machine, each in its own session; they outlive the process that started them.

<home>/jobs/<submission id>/   created once per id: the process that creates the folder starts the job
  pid       the process's line of /proc/<pid>/stat, whose start time distinguishes it from a later process with the same pid
  exit      exit code, written at the end
  patience  seconds between SIGTERM and SIGKILL
  stopped   exists once a stop was requested
  log       path of driver.log
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from workers.launchers.launcher import (
    ROOT,
    SECRETS,
    STOP_SECONDS,
    AnyLaunch,
    Capacity,
    JobLaunch,
    JobState,
    JobStatus,
    LauncherFailure,
    Node,
    driver_command,
    driver_variables,
    own_path,
)

GRACE = 3.0
"""Seconds that `stop` waits for the end; for a short job also the time between SIGTERM and SIGKILL."""
KILL_SECONDS = 10.0
"""Seconds that `stop` waits for the end of a killed process."""
STARTUP = 10.0
"""Seconds after which a job folder without a pid counts as failed to start."""
LOG_TAIL = 64_000
_SCRIPT = """
trap : TERM INT HUP
read -r line < /proc/$$/stat; echo "$line" > "$JOB/pid.new"; mv "$JOB/pid.new" "$JOB/pid"
"$@"
echo $? > "$JOB/exit.new"; mv "$JOB/exit.new" "$JOB/exit"
"""


class LocalProcessLauncher:
    """A Launcher that stores its state under `home`/jobs."""

    def __init__(self, home: Path) -> None:
        self._jobs = home / "jobs"
        self._children: list[subprocess.Popen[bytes]] = []

    def submit(self, launch: AnyLaunch) -> str:
        name = launch.submission_id
        folder = self._jobs / name
        if folder.exists() and self.status(name).state is JobState.MISSING:
            shutil.rmtree(folder)
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            return name
        try:
            self._start(launch, folder)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise LauncherFailure(f"The driver could not be started: {error}") from error
        return name

    def status(self, submission_id: str) -> JobStatus:
        folder = self._jobs / submission_id
        try:
            alive = (folder / "pid").exists() and _alive(folder)
            self._reap()
            code = _read(folder / "exit")  # read after the check of the process, which writes it last
            stopped = (folder / "stopped").exists()
            return _state(folder, alive=alive, code=code, stopped=stopped)
        except OSError as error:
            return JobStatus(JobState.UNKNOWN, f"{folder} cannot be read: {error}")

    def stop(self, submission_id: str) -> None:
        """Wait GRACE for the end; the first call after the job's grace period kills it."""
        folder = self._jobs / submission_id
        if not folder.exists():
            return
        stopped = folder / "stopped"
        try:
            if not stopped.exists():
                stopped.touch()
            if not self._ended(folder, 0.0):
                _signal(folder, signal.SIGTERM)
            if self._ended(folder, GRACE):
                return
            if time.time() - stopped.stat().st_mtime < float(_read(folder / "patience") or GRACE):
                return
            _signal(folder, signal.SIGKILL)
        except PermissionError as error:
            raise LauncherFailure(
                f"The driver of {submission_id} belongs to another user: {error}"
            ) from error
        if not self._ended(folder, KILL_SECONDS):
            raise LauncherFailure(f"The driver of {submission_id} did not end")

    def logs(self, submission_id: str) -> str:
        path = _read(self._jobs / submission_id / "log")
        try:
            with Path(path).open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_TAIL))
                return file.read().decode("utf-8", "replace")
        except (OSError, ValueError):
            return ""

    def capacity(self) -> Capacity | None:
        """Cores that this process may use; their use by others is not counted."""
        cores = float(len(os.sched_getaffinity(0)))
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        node = Node("local", socket.gethostname(), cores, 0.0, cores, 0.0, head=True, memory=memory)
        return Capacity(cores, 0.0, cores, 0.0, (node,))

    def _start(self, launch: AnyLaunch, folder: Path) -> None:
        log = launch.log
        log.parent.mkdir(parents=True, exist_ok=True)
        (folder / "log").write_text(str(log))
        grace = GRACE if isinstance(launch, JobLaunch) else STOP_SECONDS
        (folder / "patience").write_text(str(grace))
        variables = {name: value for name, value in os.environ.items() if name not in SECRETS}
        variables |= driver_variables(launch) | {
            "PYTHONPATH": own_path(),
            "PYTHONUNBUFFERED": "1",
            "JOB": str(folder),
        }
        with log.open("ab") as output:
            child = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "driver", *driver_command(launch, sys.executable), "--local"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=variables,
                cwd=ROOT,
                start_new_session=True,
            )
        self._children.append(child)

    def _reap(self) -> None:
        """Forget the children that ended. After `_alive`: a process that it saw dead is no zombie afterwards."""
        self._children = [child for child in self._children if child.poll() is None]

    def _ended(self, folder: Path, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        while True:
            alive = _alive(folder)
            self._reap()
            if not alive:
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.05)


def _state(folder: Path, *, alive: bool, code: str, stopped: bool) -> JobStatus:
    if alive and not code:
        return JobStatus(JobState.RUNNING)
    if code == "0":
        return JobStatus(JobState.SUCCEEDED)
    if stopped:
        return JobStatus(JobState.STOPPED, "ended on request")
    if code:
        return JobStatus(JobState.FAILED, f"the driver ended with code {code}")
    if (folder / "pid").exists():
        return JobStatus(JobState.FAILED, "the driver was killed")
    if folder.exists() and time.time() - folder.stat().st_mtime < STARTUP:
        return JobStatus(JobState.PENDING)
    return JobStatus(JobState.MISSING, "no process was started under this id")


def _alive(folder: Path) -> bool:
    """Whether the process that wrote the pid file is still alive (a zombie is not)."""
    recorded = _read(folder / "pid")
    pid = recorded.split(" ", 1)[0]
    now = _read(Path("/proc") / pid / "stat") if pid.isdigit() else ""
    return (
        bool(now) and _start_time(now) == _start_time(recorded) and now.rpartition(")")[2].split()[0] != "Z"
    )


def _start_time(line: str) -> str:
    """Field 22 of a line of /proc/<pid>/stat: clock ticks since boot."""
    return line.rpartition(")")[2].split()[19]


def _signal(folder: Path, number: signal.Signals) -> None:
    """Send a signal to the whole session of a live process."""
    try:
        os.killpg(int(_read(folder / "pid").split(" ", 1)[0]), number)
    except ProcessLookupError:
        return


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (FileNotFoundError, ProcessLookupError, NotADirectoryError):
        return ""
