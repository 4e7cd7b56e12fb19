"""Launchers by name, and the fake."""

from pathlib import Path

import pytest

from workers.launchers.launcher import JobState, Launch, LauncherFailure
from workers.launchers.local_process import LocalProcessLauncher
from workers.launchers.ray_jobs import RayJobLauncher
from workers.launchers.registry import FakeLauncher, make_launcher


def test_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "http://127.0.0.1:8265")
    monkeypatch.setenv("TROUPE_HOME", str(tmp_path))
    ray = make_launcher("ray")
    assert isinstance(ray, RayJobLauncher)
    assert make_launcher("ray") is ray
    assert not ray.remote
    monkeypatch.setenv("TROUPE_RAY_REMOTE", "1")
    other = make_launcher("ray")
    assert isinstance(other, RayJobLauncher)
    assert other.remote
    assert isinstance(make_launcher("local"), LocalProcessLauncher)
    assert isinstance(make_launcher("fake"), FakeLauncher)


def test_missing_settings_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(LauncherFailure, match="RAY_ADDRESS is not set"):
        make_launcher("ray")
    with pytest.raises(LauncherFailure, match="use one of ray, local, fake"):
        make_launcher("slurm")


def test_the_fake_implements_the_launcher_contract(tmp_path: Path) -> None:
    fake = FakeLauncher()
    launch = Launch("r1", 1, tmp_path, tmp_path)
    name = fake.submit(launch)
    assert fake.submit(launch) == name
    assert fake.launches == [launch]
    assert fake.status(name).state is JobState.PENDING
    fake.reachable = False
    assert fake.status(name).state is JobState.UNKNOWN
    assert fake.capacity() is None
    with pytest.raises(LauncherFailure):
        fake.submit(launch)
    fake.reachable = True
    fake.set(name, JobState.MISSING)
    assert fake.status(name).state is JobState.MISSING
    fake.submit(launch)
    fake.stop(name)
    assert fake.status(name).state is JobState.STOPPED
