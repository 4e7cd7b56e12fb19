"""The command line and environment of an attempt's driver, the same for every launcher."""

import os
from pathlib import Path

from training_core import served
from workers.launchers.launcher import AnyLaunch, JobLaunch, SeedGroupLaunch

ROOT = Path(__file__).resolve().parents[2]
"""Folder that Troupe's packages are imported from."""
SECRETS = ("DATABASE_URL", "REDIS_URL", "TROUPE_SECRET_KEY", "TROUPE_TOKEN", "RAY_ADDRESS", "RAY_AUTH_TOKEN")
"""Variables of the server that a run must not get."""


def driver_command(launch: AnyLaunch, python: str) -> list[str]:
    """`python -m workers.run CONFIG --folder ...`, `python -m workers.run --member ...`, or
    `python -m workers.node.forked_job FOLDER ...`.
    """
    if isinstance(launch, JobLaunch):
        return [python, "-m", "workers.node.forked_job", str(launch.folder), "--home", str(launch.home)]
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
    """Environment variables of a driver: number of threads, settings of libraries, its token (of a seed group: one per member)."""
    variables = {
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "RAY_USAGE_STATS_ENABLED": "0",
        "TROUPE_HOME": str(launch.home),
        served.VARIABLE: "1",
    }
    token = "" if isinstance(launch, JobLaunch) else launch.ingest_token
    return variables | ({"TROUPE_INGEST_TOKEN": token} if token else {})


def own_path() -> str:
    """PYTHONPATH for Troupe's packages on this machine."""
    return os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
