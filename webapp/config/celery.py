"""The Celery application: `celery -A webapp.config.celery`."""

import os
from typing import Any

from celery import Celery
from celery.signals import setup_logging, task_failure, worker_init, worker_ready

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.config.settings")

app = Celery("troupe")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect(weak=False)
def _keep_our_logging(**_: Any) -> None:
    """Celery leaves logging alone when somebody listens here: Django's settings, which redact, stand."""


@worker_init.connect(weak=False)
def _note_start(**_: Any) -> None:
    """Ages count from the worker's start, in all of its processes, also in those that replace another one later."""
    from webapp.runs.reconciliation import process_start

    process_start()


@task_failure.connect(weak=False)
def _note_ended(
    sender: Any, task_id: str, exception: BaseException, args: Any, kwargs: Any, **_: Any
) -> None:
    """Of tasks that are ended for their time limit, the worker's main process sends this, more than once for some."""
    from webapp.common.ended_tasks import task_ended

    task_ended(sender, task_id, exception, args or (), kwargs or {})


@worker_ready.connect(weak=False)
def _say_ready(**_: Any) -> None:
    """The first sign of life comes from the worker itself; beat asks for the later ones."""
    from webapp.common.tasks import alive

    alive()
