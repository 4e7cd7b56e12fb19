"""The order of the services of `up`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from webapp.stack.home import Home
from webapp.stack.plan import CORE, Plan, make_plan
from workers.launchers import bundled_ray


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plan]:
    """Of a home of its own, with the bundled Ray."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("TROUPE_LAUNCHER", "ray")
    home = Home(tmp_path / "home")
    home.make()
    plan = make_plan(home)
    yield plan
    plan.listener.close()
    plan.scratch.rmdir()


def test_ray_starts_after_the_first_page_as_one_start(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(bundled_ray.VARIABLE, plan.environment[bundled_ray.VARIABLE])
    (ray,) = plan.ray_head()
    assert ray.after == CORE and ray.before
    submitted_early = bundled_ray.present_cluster()
    ray.before()
    assert submitted_early and not bundled_ray.cluster_has_ended(submitted_early)
    ray.before()  # a restart
    assert bundled_ray.cluster_has_ended(submitted_early)


def test_an_own_cluster_is_not_started(plan: Plan) -> None:
    plan.ray = None
    assert plan.ray_head() == []
