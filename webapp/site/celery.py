"""The Celery application: `celery -A webapp.site.celery`."""

import os
from typing import Any

from celery import Celery
from celery.signals import beat_init, setup_logging, task_failure, worker_init, worker_ready

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.config.settings")

app = Celery("troupe")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect(weak=False)
def _keep_our_logging(**_: Any) -> None:
    """Connecting to this signal disables Celery's logging setup: Django's settings, which redact, apply."""


@worker_init.connect(weak=False)
@beat_init.connect(weak=False)
def _wait_for_the_database(**_: Any) -> None:
    """Connect to the broker only after `up` has migrated the database: tasks may be waiting."""
    from webapp.stack.home import wait_until_prepared

    wait_until_prepared()


@worker_init.connect(weak=False)
def _note_start(**_: Any) -> None:
    """Store the worker's start time; used by all of its processes, including later replacements."""
    from webapp.reconciliation.services import process_start

    process_start()


@task_failure.connect(weak=False)
def _note_ended(
    sender: Any, task_id: str, exception: BaseException, args: Any, kwargs: Any, **_: Any
) -> None:
    """For tasks that exceed their time limit, the worker's main process sends this signal, for some more than once."""
    from webapp.common.task_queue import task_ended

    task_ended(sender, task_id, exception, args or (), kwargs or {})


@worker_ready.connect(weak=False)
def _say_ready(**_: Any) -> None:
    """Write the first heartbeat from the worker itself; beat sends the task for the later ones."""
    from webapp.site.tasks import alive

    alive()
