"""What beat sends exists."""

from django.conf import settings

from webapp.config.celery import app


def test_every_scheduled_task_is_registered_and_expires() -> None:
    app.loader.import_default_modules()
    for name, entry in settings.CELERY_BEAT_SCHEDULE.items():
        assert entry["task"] in app.tasks, name
        assert entry["options"]["expires"] <= entry["schedule"], "what is late must not pile up"
