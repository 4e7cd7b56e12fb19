"""The interface of the web side to execution: submit, query, stop; and the command line of a driver, the same for every launcher. Imports
neither Ray nor torch.
"""

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from training_core import served
from training_core.errors import TroupeError

ROOT = Path(__file__).resolve().parents[2]
"""Folder that Troupe's packages are imported from."""
SECRETS = ("DATABASE_URL", "REDIS_URL", "TROUPE_SECRET_KEY", "TROUPE_TOKEN", "RAY_ADDRESS", "RAY_AUTH_TOKEN")
"""Variables of the server that a run must not get."""
STOP_SECONDS = 60
"""Seconds between SIGTERM and SIGKILL of a run's driver: enough to write a checkpoint of the last completed iteration."""


class JobState(StrEnum):
    """State of a job as reported by the execution backend."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    MISSING = "missing"
    """The backend answers but does not know the job."""
    UNKNOWN = "unknown"
    """The backend does not answer. Never treated as a failure."""


@dataclass(frozen=True)
class JobStatus:
    """A job's state with the backend's message."""

    state: JobState
    message: str = ""


@dataclass(frozen=True)
class Launch:
    """Parameters of one attempt."""

    run: str
    attempt: int
    folder: Path
    """The run folder, with config.toml and the token for its events."""
    home: Path
    """TROUPE_HOME, for cached base models."""
    ingest_url: str = ""
    """Address for events, e.g. http://127.0.0.1:8000/api/v1/runs/<run>/events/; empty keeps them on disk only."""
    resume_from: Path | None = None
    """Checkpoint to continue from."""
    fork_from: Path | None = None
    """Checkpoint of another run to start from; unused if `resume_from` is set."""
    fall_back: bool = False
    """Whether an earlier checkpoint is used if `resume_from` is damaged."""

    @property
    def submission_id(self) -> str:
        """Id of the submission. It depends only on run and attempt, so submission is idempotent."""
        return f"troupe-{self.run}-{self.attempt}"

    @property
    def log(self) -> Path:
        """Path of the driver's output under a local launcher."""
        return self.folder / f"attempt-{self.attempt}" / "driver.log"

    @property
    def labels(self) -> dict[str, str]:
        """Labels on the backend's own pages."""
        return {"run": self.run, "attempt": str(self.attempt)}


@dataclass(frozen=True)
class SeedGroupLaunch:
    """Parameters of a job whose process trains several runs: the seeds of one config."""

    members: tuple[Launch, ...]
    """One attempt of each run; at least one."""
    submission_id: str
    """Id of the submission: that of the attempt for which the job was first submitted."""
    cpus: float = 0.0
    """CPU cores of its single process."""

    @property
    def home(self) -> Path:
        """TROUPE_HOME, the same for all members."""
        return self.members[0].home

    @property
    def log(self) -> Path:
        """Path of the process's output under a local launcher."""
        return self.members[0].log

    @property
    def labels(self) -> dict[str, str]:
        """Labels on the backend's own pages."""
        return {"runs": " ".join(member.run for member in self.members)}


@dataclass(frozen=True)
class JobLaunch:
    """Parameters of a short job; its folder holds the request (see workers.storage.folders)."""

    job: str
    folder: Path
    home: Path
    """TROUPE_HOME, for cached base models."""
    gpus: float = 0.0
    """GPUs of its single process."""

    @property
    def submission_id(self) -> str:
        """Id of the submission. It depends only on the job, so submission is idempotent."""
        return f"troupe-job-{self.job}"

    @property
    def log(self) -> Path:
        """Path of the job's output under a local launcher."""
        return self.folder / "driver.log"

    @property
    def labels(self) -> dict[str, str]:
        """Labels on the backend's own pages."""
        return {"job": self.job}


@dataclass(frozen=True)
class Node:
    """One machine of the cluster with its total and free devices."""

    id: str
    name: str
    """Host name or address, as reported by the backend."""
    cpus: float
    gpus: float
    free_cpus: float
    free_gpus: float
    head: bool = False
    """Whether it is the backend's head node."""
    memory: int = 0
    """Bytes of main memory; 0 if unknown."""
    gpu_memory: int = 0
    """Bytes of memory of its smallest GPU; 0 if it has none or it is unknown."""


@dataclass(frozen=True)
class Capacity:
    """Total and free devices of the cluster."""

    cpus: float
    gpus: float
    free_cpus: float
    free_gpus: float
    nodes: tuple[Node, ...] = ()
    """Empty if unknown."""


AnyLaunch = Launch | SeedGroupLaunch | JobLaunch


class LauncherFailure(TroupeError):
    """The backend refused or could not be reached."""


class LauncherStarting(LauncherFailure):
    """The backend answers, but does not start jobs yet. Try again."""


class Launcher(Protocol):
    """Execution backend: Ray jobs, local processes, or a fake for tests."""

    def submit(self, launch: AnyLaunch) -> str:
        """Start the attempt, seed group or job unless its submission id exists; return that id. Raises LauncherFailure."""
        ...

    def status(self, submission_id: str) -> JobStatus:
        """The job's state. Never raises: without an answer the state is UNKNOWN."""
        ...

    def stop(self, submission_id: str) -> None:
        """Send SIGTERM; a run that still exists after STOP_SECONDS is killed. Returns before that: the caller polls `status`,
        and calls `stop` again if the job has not ended. Raises LauncherFailure.
        """
        ...

    def logs(self, submission_id: str) -> str:
        """The end of the job's output (at most 64 kB); empty if there is none."""
        ...

    def capacity(self) -> Capacity | None:
        """Devices of the cluster; None if the backend does not answer."""
        ...


def driver_command(launch: AnyLaunch, python: str) -> list[str]:
    """`python -m workers.run CONFIG --folder ...`, `python -m workers.run --member ...`, or
    `python -m workers.prefork.client job FOLDER ...`.
    """
    if isinstance(launch, JobLaunch):
        return [python, "-m", "workers.prefork.client", "job", str(launch.folder), "--home", str(launch.home)]
    if isinstance(launch, SeedGroupLaunch):
        facts = [(one.run, str(one.attempt), str(one.folder), one.ingest_url) for one in launch.members]
        members = [word for words in facts for word in ("--member", *words)]
        return [python, "-m", "workers.run", *members, "--home", str(launch.home)]
    options = {
        "--folder": str(launch.folder),
        "--run": launch.run,
        "--attempt": str(launch.attempt),
        "--home": str(launch.home),
        "--ingest-url": launch.ingest_url,
        "--resume-from": str(launch.resume_from) if launch.resume_from else "",
        "--fork-from": str(launch.fork_from) if launch.fork_from and not launch.resume_from else "",
    }
    words = [word for option, value in options.items() if value for word in (option, value)]
    flags = ["--fall-back"] if launch.resume_from and launch.fall_back else []
    return [python, "-m", "workers.run", str(launch.folder / "config.toml"), *words, *flags]


def driver_variables(launch: AnyLaunch) -> dict[str, str]:
    """Environment variables of a driver: number of threads, settings of libraries. None is secret: Ray shows them in command lines."""
    passed = {name: os.environ[name] for name in (served.ADDRESSES, served.NETWORKS) if name in os.environ}
    return (
        passed
        | {
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_DEDUP_LOGS": "0",  # Ray prints repeated lines of workers late, from another thread: they would be the driver's
            "TROUPE_HOME": str(launch.home),
            served.VARIABLE: "1",
        }
    )


def own_path() -> str:
    """PYTHONPATH for Troupe's packages on this machine."""
    return os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
