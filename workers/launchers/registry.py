"""Launchers by name. Settings come from the environment; there is one launcher per process and setting."""

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from workers.launchers.command import ROOT
from workers.launchers.fake import FakeLauncher
from workers.launchers.launcher import Launcher, LauncherFailure
from workers.launchers.local_process import LocalProcessLauncher
from workers.launchers.ray_jobs import RayJobLauncher


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
            "RAY_ADDRESS is not set; give the address of a Ray dashboard, http://<head node>:8265"
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
