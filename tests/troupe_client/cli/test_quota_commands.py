"""troupe project quota against a real server."""

import json

import pytest

from tests.troupe_client.cli.conftest import Troupe

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("connected")]


def test_quotas_are_set_and_shown(troupe: Troupe) -> None:
    assert "runs       0 no limit" in troupe("project", "quota", "lab").out
    result = troupe("project", "quota", "lab", "runs=2", "gigabytes=1.5").out
    assert "runs       0 of 2" in result and "of 1.5" in result
    assert (
        json.loads(troupe("project", "quota", "lab", "runs=none", "--json").out)[0]["limits"]["runs"] is None
    )


def test_invalid_arguments_are_refused(troupe: Troupe) -> None:
    assert "write name=value" in troupe("project", "quota", "lab", "runs").err
    assert "is not a number" in troupe("project", "quota", "lab", "runs=many").err
    assert troupe("project", "quota", "lab", "runs=1.5").status == 1
