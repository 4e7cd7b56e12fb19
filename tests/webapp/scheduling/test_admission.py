"""Priority, then age: a later run takes only what those before it leave."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from webapp.runs.models import Run
from webapp.scheduling.submission import run_submit_now
from workers.launchers.launcher import Capacity
from workers.launchers.registry import FakeLauncher
from workers.sizing.placement import demand


def another(run: Run, **fields: Any) -> Run:
    return Run.objects.create(
        project=run.project, owner=run.owner, name="other", config=run.config, iterations=9, **fields
    )


@pytest.fixture
def wants(run: Run, launcher: FakeLauncher) -> float:
    """CPU cores of one run; the cluster has room for one and a half."""
    from training_core.config.files import parse_config

    cores = demand(parse_config(run.config)).cpus
    launcher.devices = Capacity(cores * 1.5, 0.0, cores * 1.5, 0.0)
    return cores


def test_a_higher_priority_goes_first(run: Run, wants: float, launcher: FakeLauncher) -> None:
    urgent = another(run, priority=1)
    assert not run_submit_now(run.pk)
    run.refresh_from_db()
    assert run.reason == (
        f"Waiting for {wants:g} CPU cores, which another run is to get first, with a higher priority or an earlier launch."
    )
    assert run_submit_now(urgent.pk)


def test_an_older_one_goes_first(run: Run, wants: float, launcher: FakeLauncher) -> None:
    younger = another(run)
    assert not run_submit_now(younger.pk)
    assert run_submit_now(run.pk)


def test_both_start_where_both_fit(run: Run, wants: float, launcher: FakeLauncher) -> None:
    launcher.devices = Capacity(wants * 2, 0.0, wants * 2, 0.0)
    younger = another(run)
    assert run_submit_now(younger.pk)
    assert run_submit_now(run.pk)


def test_what_never_fits_keeps_nobody_waiting(run: Run, wants: float, launcher: FakeLauncher) -> None:
    large = another(run, priority=9)
    large.config["resources"]["environment_cpus"] = wants * 10
    large.save()
    assert run_submit_now(run.pk)


def test_a_small_one_does_not_overtake_a_large_one(run: Run, wants: float, launcher: FakeLauncher) -> None:
    """Else a stream of small runs would starve it."""
    another(run, state="running")
    large = another(run)
    large.config["resources"]["environment_cpus"] += wants * 0.4
    large.created_at = timezone.now() - timedelta(hours=1)
    large.save()
    launcher.devices = Capacity(wants * 2.2, 0.0, 0.0, 0.0)
    assert not run_submit_now(run.pk)
    run.refresh_from_db()
    assert "to get first" in run.reason
