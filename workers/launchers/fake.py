"""A launcher that runs nothing, for tests."""

from dataclasses import dataclass, field

from workers.launchers.launcher import (
    AnyLaunch,
    Capacity,
    JobLaunch,
    JobState,
    JobStatus,
    Launch,
    LauncherFailure,
    SeedGroupLaunch,
)


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
