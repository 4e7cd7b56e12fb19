"""What beat sends exists."""

import subprocess
import sys

from django.conf import settings

from webapp.site.celery import app


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
