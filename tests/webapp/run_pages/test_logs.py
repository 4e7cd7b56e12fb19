"""The page of a run's log."""

import pytest
from django.test import Client
from django.utils import timezone

from webapp.accounts.models import User
from webapp.runs.logs import LEVELS, log_sources
from webapp.runs.models import LogLine, Run


@pytest.mark.django_db
def test_level_shows_lines_of_this_level_and_above(client: Client, user: User, run: Run) -> None:
    for level in LEVELS:
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
    shown = [level for level in LEVELS if f"line of {level}" in page]
    assert shown == ["warning", "error"]


@pytest.mark.django_db
def test_lines_of_a_source_are_chosen_by_the_address(client: Client, user: User, run: Run) -> None:
    for number in range(3):
        for source in ("environment-0", "driver"):
            LogLine.objects.create(
                run=run,
                attempt=1,
                cursor=0,
                time=timezone.now(),
                level="output",
                source=source,
                message=f"{source} {number}",
            )
    client.force_login(user)
    page = client.get(f"/runs/{run.pk}/logs/", {"source": "environment-0", "q": "T 1"}).content.decode()
    assert "environment-0 1" not in page
    page = client.get(f"/runs/{run.pk}/logs/", {"source": "environment-0", "q": "0 1"}).content.decode()
    assert "environment-0 1</span>" in page and "environment-0 2</span>" not in page
    assert '<option value="environment-0" selected>' in page and '<option value="driver">' in page
    assert log_sources(run) == ["driver", "environment-0"]
    unknown = client.get(f"/runs/{run.pk}/logs/", {"source": "nobody"}).content.decode()
    assert "No line matches these filters." in unknown and '<option value="nobody" selected>' in unknown
