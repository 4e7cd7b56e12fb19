"""Runs as child processes of this machine, each in a session of its own; they outlive the process that started them.

<home>/jobs/<submission id>/   made once per id: whoever makes the folder starts the process
  pid       the process's line of /proc/<pid>/stat, whose start time tells it from a later process with its pid
  exit      exit code, written when it has ended
  patience  seconds between SIGTERM and SIGKILL
  stopped   there since an end was asked for
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

from workers.launchers.command import ROOT, SECRETS, driver_command, driver_variables, own_path
from workers.launchers.launcher import (
    STOP_SECONDS,
    Capacity,
    JobLaunch,
    JobState,
    JobStatus,
    Launch,
    LauncherFailure,
    Node,
)

GRACE = 3.0
"""Seconds that `stop` waits for the end; of a short job also those between SIGTERM and SIGKILL."""
STARTUP = 10.0
"""A job folder without a pid is given up after so many seconds."""
LOG_TAIL = 64_000
_SCRIPT = """
trap : TERM INT HUP
read -r line < /proc/$$/stat; echo "$line" > "$JOB/pid.new"; mv "$JOB/pid.new" "$JOB/pid"
"$@"
echo $? > "$JOB/exit.new"; mv "$JOB/exit.new" "$JOB/exit"
"""


class LocalProcessLauncher:
    """Keeps its books under `home`/jobs."""

    def __init__(self, home: Path) -> None:
        self._jobs = home / "jobs"
        self._children: list[subprocess.Popen[bytes]] = []

    def submit(self, launch: Launch | JobLaunch) -> str:
        """See Launcher."""
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
        """See Launcher."""
        self._children = [child for child in self._children if child.poll() is None]
        folder = self._jobs / submission_id
        try:
            alive = (folder / "pid").exists() and _alive(folder)
            code = _read(folder / "exit")  # read after the look at the process, which writes it last
            stopped = (folder / "stopped").exists()
            return _judge(folder, alive=alive, code=code, stopped=stopped)
        except OSError as error:
            return JobStatus(JobState.UNKNOWN, f"{folder} cannot be read: {error}")

    def stop(self, submission_id: str) -> None:
        """See Launcher. Waits GRACE for the end; the first call that comes when its patience is over kills a run."""
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
        if not self._ended(folder, GRACE):
            raise LauncherFailure(f"The driver of {submission_id} did not end")

    def logs(self, submission_id: str) -> str:
        """See Launcher."""
        path = _read(self._jobs / submission_id / "log")
        try:
            with Path(path).open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_TAIL))
                return file.read().decode("utf-8", "replace")
        except (OSError, ValueError):
            return ""

    def capacity(self) -> Capacity | None:
        """See Launcher. Cores this process may use; what others use is not counted."""
        cores = float(len(os.sched_getaffinity(0)))
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        node = Node("local", socket.gethostname(), cores, 0.0, cores, 0.0, head=True, memory=memory)
        return Capacity(cores, 0.0, cores, 0.0, (node,))

    def _start(self, launch: Launch | JobLaunch, folder: Path) -> None:
        log = launch.log
        log.parent.mkdir(parents=True, exist_ok=True)
        (folder / "log").write_text(str(log))
        patience = GRACE if isinstance(launch, JobLaunch) else STOP_SECONDS
        (folder / "patience").write_text(str(patience))
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

    def _ended(self, folder: Path, within: float) -> bool:
        deadline = time.monotonic() + within
        while True:
            self._children = [child for child in self._children if child.poll() is None]
            if not _alive(folder):
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.05)


def _judge(folder: Path, *, alive: bool, code: str, stopped: bool) -> JobStatus:
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
    """Whether the very process that wrote the pid file still lives (a zombie does not)."""
    noted = _read(folder / "pid")
    pid = noted.split(" ", 1)[0]
    now = _read(Path("/proc") / pid / "stat") if pid.isdigit() else ""
    return bool(now) and _start_time(now) == _start_time(noted) and now.rpartition(")")[2].split()[0] != "Z"


def _start_time(line: str) -> str:
    """Field 22 of a line of /proc/<pid>/stat: clock ticks since boot."""
    return line.rpartition(")")[2].split()[19]


def _signal(folder: Path, number: signal.Signals) -> None:
    """To the whole session of a process that is known to live."""
    try:
        os.killpg(int(_read(folder / "pid").split(" ", 1)[0]), number)
    except ProcessLookupError:
        return


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (FileNotFoundError, ProcessLookupError, NotADirectoryError):
        return ""
