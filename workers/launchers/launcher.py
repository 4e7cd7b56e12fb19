"""The web side's only door to execution: submit, ask, stop. No Ray and no torch on import."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

STOP_SECONDS = 60
"""Between SIGTERM and SIGKILL of a run's driver: enough to write a checkpoint of the last completed iteration."""


class JobState(StrEnum):
    """What the execution backend says of a job."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    MISSING = "missing"
    """The backend answers and does not know the job."""
    UNKNOWN = "unknown"
    """The backend does not answer. Never taken for a failure."""


@dataclass(frozen=True)
class JobStatus:
    """A job's state with the backend's own words."""

    state: JobState
    message: str = ""


@dataclass(frozen=True)
class Launch:
    """All that one attempt needs."""

    run: str
    attempt: int
    folder: Path
    """The run folder; config.toml is in it."""
    home: Path
    """TROUPE_HOME, for cached base models."""
    ingest_url: str = ""
    """Where events go, e.g. http://127.0.0.1:8000/api/v1/runs/<run>/events/; empty keeps them on disk only."""
    ingest_token: str = field(default="", repr=False)
    """Bearer token that can write to this run only."""
    resume_from: Path | None = None
    """Checkpoint to continue from."""
    fork_from: Path | None = None
    """Checkpoint of another run to start from; unused where there is one to continue from."""
    fall_back: bool = False
    """Whether an earlier checkpoint is taken where `resume_from` is damaged."""

    @property
    def submission_id(self) -> str:
        """Same run and attempt, same id: submission is idempotent."""
        return f"troupe-{self.run}-{self.attempt}"

    @property
    def log(self) -> Path:
        """Where a local launcher writes what the driver prints."""
        return self.folder / f"attempt-{self.attempt}" / "driver.log"

    @property
    def labels(self) -> dict[str, str]:
        """What the backend's own pages show of it."""
        return {"run": self.run, "attempt": str(self.attempt)}


@dataclass(frozen=True)
class JobLaunch:
    """A short job beside runs: what it needs lies in its folder (see workers.storage.job_folder)."""

    job: str
    folder: Path
    home: Path
    """TROUPE_HOME, for cached base models."""
    gpus: float = 0.0
    """Of its one process."""

    @property
    def submission_id(self) -> str:
        """Same job, same id: submission is idempotent."""
        return f"troupe-job-{self.job}"

    @property
    def log(self) -> Path:
        """Where a local launcher writes what the job prints."""
        return self.folder / "driver.log"

    @property
    def labels(self) -> dict[str, str]:
        """What the backend's own pages show of it."""
        return {"job": self.job}


@dataclass(frozen=True)
class Node:
    """One machine of the cluster: its devices, all and free now."""

    id: str
    name: str
    """Host name or address, as the backend knows it."""
    cpus: float
    gpus: float
    free_cpus: float
    free_gpus: float
    head: bool = False
    """Whether the backend's own head runs there."""
    memory: int = 0
    """Bytes of main memory; 0 where the backend does not say."""
    gpu_memory: int = 0
    """Bytes of one of its GPUs (the smallest); 0 where there is none, or the backend does not say."""


@dataclass(frozen=True)
class Capacity:
    """Devices of the cluster, all and free now; None when the backend does not answer."""

    cpus: float
    gpus: float
    free_cpus: float
    free_gpus: float
    nodes: tuple[Node, ...] = ()
    """Empty where the backend does not say."""


class LauncherFailure(Exception):
    """The backend refused or could not be reached; the message says what to do."""


class Launcher(Protocol):
    """Execution backend: Ray jobs, local processes, or a fake for tests."""

    def submit(self, launch: Launch | JobLaunch) -> str:
        """Start the attempt or job unless its submission id exists already; return that id. Raises LauncherFailure."""
        ...

    def status(self, submission_id: str) -> JobStatus:
        """What the backend says. Never raises: no answer is UNKNOWN."""
        ...

    def stop(self, submission_id: str) -> None:
        """Send SIGTERM; a run that is still there after STOP_SECONDS is killed. Returns before that: `status` tells when it has
        ended, and where it has not, the caller asks again. Raises LauncherFailure.
        """
        ...

    def logs(self, submission_id: str) -> str:
        """The tail of the job's own output (at most 64 kB); empty if there is none."""
        ...

    def capacity(self) -> Capacity | None:
        """What the cluster has."""
        ...
