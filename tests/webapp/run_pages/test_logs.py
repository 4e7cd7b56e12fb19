"""The page of a run's log."""

import pytest
from django.test import Client
from django.utils import timezone

from webapp.accounts.models import User
from webapp.runs.models import LogLine, Run


@pytest.mark.django_db
def test_level_shows_lines_of_this_level_and_above(client: Client, user: User, run: Run) -> None:
    for level in ("debug", "info", "warning", "error"):
        LogLine.objects.create(
            run=run,
            attempt=1,
            cursor=0,
            time=timezone.now(),
            level=level,
            source="driver",
            message=f"line of {level}",
        )
    client.force_login(user)
    page = client.get(f"/runs/{run.pk}/logs/", {"level": "warning"}).content.decode()
    shown = [level for level in ("debug", "info", "warning", "error") if f"line of {level}" in page]
    assert shown == ["warning", "error"]
