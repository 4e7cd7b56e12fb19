"""Django's system checks: the processes of `up` skip them, because they import every view."""

import pytest
from django.core.checks import ERROR, run_checks


@pytest.mark.django_db
def test_no_system_check_fails() -> None:
    assert [
        message for message in run_checks(include_deployment_checks=False) if message.level >= ERROR
    ] == []
