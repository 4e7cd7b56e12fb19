"""The Celery application: `celery -A webapp.config.celery`."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.config.settings")

app = Celery("troupe")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
