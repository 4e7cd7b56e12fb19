"""The Celery application: `celery -A webapp.config.celery`."""

import os
from typing import Any

from celery import Celery
from celery.signals import setup_logging, worker_ready

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.config.settings")

app = Celery("troupe")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect(weak=False)
def _keep_our_logging(**_: Any) -> None:
    """Celery leaves logging alone when somebody listens here: Django's settings, which redact, stand."""


@worker_ready.connect(weak=False)
def _say_ready(**_: Any) -> None:
    """The first sign of life comes from the worker itself; beat asks for the later ones."""
    from webapp.common.tasks import alive

    alive()
