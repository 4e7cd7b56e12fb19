"""Launchers by name, and one for tests. Settings come from the environment; there is one launcher per process and setting."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from workers.launchers.launcher import (
    ROOT,
    AnyLaunch,
    Capacity,
    JobLaunch,
    JobState,
    JobStatus,
    Launch,
    Launcher,
    LauncherFailure,
    SeedGroupLaunch,
)
from workers.launchers.local_process import LocalProcessLauncher
from workers.launchers.ray_jobs import RayJobLauncher


@dataclass
class FakeLauncher:
    """A Launcher whose jobs have the states that a test sets."""

    reachable: bool = True
    jobs: dict[str, JobStatus] = field(default_factory=dict)
    launches: list[Launch] = field(default_factory=list)
    """Launches of runs that created a job, in order."""
    seed_groups: list[SeedGroupLaunch] = field(default_factory=list)
    """Launches of several runs that created a job, in order."""
    short: list[JobLaunch] = field(default_factory=list)
    """Launches of short jobs that created a job, in order."""
    stopped: list[str] = field(default_factory=list)
    log: str = ""
    devices: Capacity = field(default_factory=lambda: Capacity(2.0, 0.0, 2.0, 0.0))

    def submit(self, launch: AnyLaunch) -> str:
        self._reach()
        if launch.submission_id not in self.jobs:
            if isinstance(launch, JobLaunch):
                self.short.append(launch)
            elif isinstance(launch, SeedGroupLaunch):
                self.seed_groups.append(launch)
            else:
                self.launches.append(launch)
            self.jobs[launch.submission_id] = JobStatus(JobState.PENDING)
        return launch.submission_id

    def status(self, submission_id: str) -> JobStatus:
        if not self.reachable:
            return JobStatus(JobState.UNKNOWN, "the fake is out of reach")
        return self.jobs.get(submission_id, JobStatus(JobState.MISSING))

    def stop(self, submission_id: str) -> None:
        self._reach()
        self.stopped.append(submission_id)
        if submission_id in self.jobs:
            self.jobs[submission_id] = JobStatus(JobState.STOPPED)

    def logs(self, submission_id: str) -> str:
        return self.log if submission_id in self.jobs else ""

    def capacity(self) -> Capacity | None:
        return self.devices if self.reachable else None

    def set(self, submission_id: str, state: JobState, message: str = "") -> None:
        """Set the job's state; MISSING removes it."""
        self.jobs[submission_id] = JobStatus(state, message)
        if state is JobState.MISSING:
            del self.jobs[submission_id]

    def _reach(self) -> None:
        if not self.reachable:
            raise LauncherFailure("the fake is out of reach")


def make_launcher(kind: str) -> Launcher:
    """`ray` (RAY_ADDRESS, RAY_AUTH_TOKEN, TROUPE_RAY_REMOTE), `local` (TROUPE_HOME) or `fake`.

    Raises LauncherFailure for an unknown name or an invalid address.
    """
    if kind not in LAUNCHERS:
        raise LauncherFailure(f"TROUPE_LAUNCHER={kind!r}: use one of {', '.join(LAUNCHERS)}")
    return LAUNCHERS[kind]()


def _ray() -> Launcher:
    address = os.environ.get("RAY_ADDRESS", "").strip()
    if not address:
        raise LauncherFailure(
            "RAY_ADDRESS is not set", remedy="give the address of a Ray dashboard, http://<head node>:8265"
        )
    remote = True if os.environ.get("TROUPE_RAY_REMOTE", "").lower() in ("1", "true", "yes") else None
    return _ray_at(address, os.environ.get("RAY_AUTH_TOKEN", "").strip(), remote, os.getpid())


@lru_cache(maxsize=4)
def _ray_at(address: str, token: str, remote: bool | None, _process: int) -> Launcher:
    """The launcher with its connection; a forked process creates its own."""
    return RayJobLauncher(address, token, remote=remote)


def _local() -> Launcher:
    return _local_at(Path(os.environ.get("TROUPE_HOME", "").strip() or ROOT / "var").expanduser().resolve())


@lru_cache(maxsize=4)
def _local_at(home: Path) -> Launcher:
    return LocalProcessLauncher(home)


LAUNCHERS: dict[str, Callable[[], Launcher]] = {"ray": _ray, "local": _local, "fake": FakeLauncher}
