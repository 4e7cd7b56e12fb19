"""Real child processes: one per submission id, distinct final states, alive after their launcher has ended."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from workers.launchers import local_process
from workers.launchers.launcher import STOP_SECONDS, JobState, Launch, LauncherFailure
from workers.launchers.local_process import LocalProcessLauncher

from .conftest import until

Make = Callable[[str], Launch]
pytestmark = pytest.mark.usefixtures("driver")


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[LocalProcessLauncher]:
    made = LocalProcessLauncher(tmp_path)
    yield made
    for folder in (tmp_path / "jobs").glob("*"):
        made.stop(folder.name)


def pid_of(launcher: LocalProcessLauncher, name: str) -> int:
    return int((launcher._jobs / name / "pid").read_text().split()[0])


def started(launcher: LocalProcessLauncher, task: Launch) -> str:
    name = launcher.submit(task)
    until((task.folder / "ready").exists)
    return name


def test_from_start_to_end(
    launcher: LocalProcessLauncher, launch: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://secret")
    task = launch("end")
    name = launcher.submit(task)
    until(lambda: launcher.status(name).state is JobState.SUCCEEDED)
    said = (task.folder / "said").read_text().split("\n")
    assert f"--run {task.run} --attempt 1" in said[0]
    assert said[1:3] == ["1", ""]
    assert "from the driver" in launcher.logs(name)
    assert (task.folder / "attempt-1" / "driver.log").exists()
    assert launcher.submit(task) == name
    assert launcher.status(name).state is JobState.SUCCEEDED


def test_a_failure_reports_its_exit_code(launcher: LocalProcessLauncher, launch: Make) -> None:
    name = launcher.submit(launch("fail"))
    until(lambda: launcher.status(name).state is JobState.FAILED)
    assert launcher.status(name).message == "the driver ended with code 7"


def test_submitting_twice_starts_one_process(
    launcher: LocalProcessLauncher, launch: Make, tmp_path: Path
) -> None:
    task = launch("run")
    name = started(launcher, task)
    first = pid_of(launcher, name)
    assert LocalProcessLauncher(tmp_path).submit(task) == name
    assert pid_of(launcher, name) == first
    assert launcher.status(name).state is JobState.RUNNING


@pytest.mark.parametrize(("task", "state"), [("run", JobState.STOPPED), ("polite", JobState.SUCCEEDED)])
def test_stop_sends_sigterm_first(
    launcher: LocalProcessLauncher, launch: Make, task: str, state: JobState
) -> None:
    name = started(launcher, launch(task))
    launcher.stop(name)
    until(lambda: launcher.status(name).state is state)
    launcher.stop(name)


def test_stop_kills_after_the_grace_period(
    launcher: LocalProcessLauncher, launch: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.launchers.local_process.GRACE", 0.3)
    monkeypatch.setattr("workers.launchers.local_process.STOP_SECONDS", 0.2)
    name = started(launcher, launch("stubborn"))
    launcher.stop(name)
    assert launcher.status(name).state is JobState.STOPPED


def test_a_run_gets_time_for_a_checkpoint_before_sigkill(
    launcher: LocalProcessLauncher, launch: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.launchers.local_process.GRACE", 0.1)
    name = started(launcher, launch("stubborn"))
    for _ in range(3):
        launcher.stop(name)
        assert launcher.status(name).state is JobState.RUNNING
    long_ago = time.time() - STOP_SECONDS - 1
    os.utime(launcher._jobs / name / "stopped", (long_ago, long_ago))
    launcher.stop(name)
    assert launcher.status(name).state is JobState.STOPPED


def test_a_killed_driver_has_failed(launcher: LocalProcessLauncher, launch: Make) -> None:
    name = started(launcher, launch("run"))
    os.killpg(pid_of(launcher, name), signal.SIGKILL)
    until(lambda: launcher.status(name).state is JobState.FAILED)
    assert launcher.status(name).message == "the driver was killed"


def test_a_driver_that_ends_during_the_last_check_leaves_no_zombie(
    launcher: LocalProcessLauncher, launch: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = pid_of(launcher, name := started(launcher, launch("stubborn")))
    looks = 0

    def look(folder: Path) -> bool:
        nonlocal looks
        looks += 1
        if looks == 2:
            os.killpg(pid, signal.SIGKILL)
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        return alive(folder)

    alive = local_process._alive
    monkeypatch.setattr(local_process, "_alive", look)
    launcher.stop(name)
    assert not Path(f"/proc/{pid}").exists()


def test_a_reused_pid_is_recognised(launcher: LocalProcessLauncher, launch: Make) -> None:
    name = started(launcher, launch("run"))
    os.killpg(pid_of(launcher, name), signal.SIGKILL)
    until(lambda: launcher.status(name).state is JobState.FAILED)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as other:
        try:
            noted = launcher._jobs / name / "pid"
            noted.write_text(" ".join([str(other.pid), *noted.read_text().split(" ")[1:]]))
            assert launcher.status(name).state is JobState.FAILED
            launcher.stop(name)
            assert other.poll() is None
        finally:
            other.kill()


PARENT = """
import sys
from pathlib import Path
from workers.launchers.launcher import Launch
from workers.launchers import local_process
local_process.driver_command = lambda launch, python: [python, sys.argv[1], "--folder", str(launch.folder)]
local_process.LocalProcessLauncher(Path(sys.argv[2])).submit(Launch("r1", 1, Path(sys.argv[3]), Path(sys.argv[2])))
"""


def test_a_driver_outlives_its_launcher(
    launcher: LocalProcessLauncher, launch: Make, driver: Path, tmp_path: Path
) -> None:
    task = launch("run")
    subprocess.run([sys.executable, "-c", PARENT, driver, tmp_path, task.folder], check=True)
    until((task.folder / "ready").exists)
    assert launcher.status("troupe-r1-1").state is JobState.RUNNING
    launcher.stop("troupe-r1-1")
    assert launcher.status("troupe-r1-1").state is JobState.STOPPED


def test_unknown_job_is_missing(launcher: LocalProcessLauncher) -> None:
    assert launcher.status("troupe-none-1").state is JobState.MISSING
    assert launcher.logs("troupe-none-1") == ""
    launcher.stop("troupe-none-1")


def test_a_claim_without_a_process_is_taken_over(launcher: LocalProcessLauncher, launch: Make) -> None:
    task = launch("end")
    folder = launcher._jobs / task.submission_id
    folder.mkdir(parents=True)
    assert launcher.status(task.submission_id).state is JobState.PENDING
    os.utime(folder, (0, 0))
    assert launcher.status(task.submission_id).state is JobState.MISSING
    launcher.submit(task)
    until(lambda: launcher.status(task.submission_id).state is JobState.SUCCEEDED)


def test_a_failed_start_is_reported(
    launcher: LocalProcessLauncher, launch: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = launch("end")
    (task.folder / "attempt-1").write_text("a file where a folder should be")
    with pytest.raises(LauncherFailure, match="could not be started"):
        launcher.submit(task)
    assert launcher.status(task.submission_id).state is JobState.MISSING
