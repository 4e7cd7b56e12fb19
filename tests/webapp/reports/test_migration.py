"""Versions of reports that an earlier Troupe has stored."""

from collections.abc import Iterator

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from webapp.accounts.models import Project, User
from webapp.reports.models import Report
from webapp.reports.services import report_create, report_save

pytestmark = pytest.mark.django_db(transaction=True)


def migrate(name: str) -> None:
    MigrationExecutor(connection).migrate([("reports", name)])


def kinds(report: Report) -> list[str]:
    return [version.kind for version in report.versions.all()]


@pytest.fixture(autouse=True)
def _today() -> Iterator[None]:
    """The tables of today afterwards, whatever failed."""
    yield
    migrate("0002_conflict")


def test_late_saves_have_the_kind_conflict_after_the_migration(user: User, project: Project) -> None:
    report = report_create(user, project, "First", "one")
    report_save(user, report, "First", "two", 1)
    assert report_save(user, report, "First", "late", 1).conflict
    migrate("0001_initial")
    assert kinds(report) == ["beside", "saved", "saved"]
    migrate("0002_conflict")
    assert kinds(report) == ["conflict", "saved", "saved"]
