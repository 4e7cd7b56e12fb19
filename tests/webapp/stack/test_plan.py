"""The processes of a stack and the schedule of periodic tasks."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from webapp.site.celery import app
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
    plan.runs_wait = True
    assert plan.ray_head()[0].after == (), "runs that a killed start interrupted wait for nothing else"
    submitted_early = bundled_ray.present_cluster()
    ray.before()
    assert submitted_early and not bundled_ray.cluster_has_ended(submitted_early)
    ray.before()  # a restart
    assert bundled_ray.cluster_has_ended(submitted_early)


def test_an_own_cluster_is_not_started(plan: Plan) -> None:
    plan.ray = None
    assert plan.ray_head() == []


def test_every_scheduled_task_is_registered_and_expires() -> None:
    app.loader.import_default_modules()
    for name, entry in settings.CELERY_BEAT_SCHEDULE.items():
        assert entry["task"] in app.tasks, name
        assert entry["options"]["expires"] <= entry["schedule"], "what is late must not pile up"


def test_every_task_ends_in_time() -> None:
    app.loader.import_default_modules()
    ours = {name: task for name, task in app.tasks.items() if not name.startswith("celery.")}
    assert {"runs.submit", "common.alive"} <= ours.keys()
    for name, task in ours.items():
        soft = task.soft_time_limit or app.conf.task_soft_time_limit
        hard = task.time_limit or app.conf.task_time_limit
        assert soft < hard <= 150, name


def test_tasks_are_sent_to_our_broker_from_every_django_process() -> None:
    code = """
import django
django.setup()
from webapp.site.tasks import alive
print(alive.app.main, alive.app.conf.broker_url)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["troupe", settings.REDIS_URL.replace("unix://", "redis+socket://")]
