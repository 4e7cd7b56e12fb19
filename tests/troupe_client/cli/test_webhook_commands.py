"""troupe webhook against a real server."""

import pytest

from tests.troupe_client.cli.conftest import Troupe

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("connected")]


def test_a_webhook_is_made_tried_and_removed(troupe: Troupe) -> None:
    made = troupe("webhook", "add", "lab", "ci", "https://ci.example.org/x", "--event", "run.failed").out
    number = made.split()[0]
    assert "ci  https://ci.example.org  " in made
    listed = troupe("webhook", "list", "lab").out
    assert "run.failed" in listed and made.split()[-1] not in listed
    ping = troupe("webhook", "ping", "lab", number).out
    assert "ping  waiting" in ping
    assert troupe("webhook", "deliveries", "lab", number).out.splitlines()[1].split() == ping.split()
    assert "waiting" in troupe("webhook", "redeliver", "lab", number, ping.split()[0]).out
    assert "enabled" not in troupe("webhook", "disable", "lab", number).out
    assert "enabled" in troupe("webhook", "enable", "lab", number).out
    assert "remove" in troupe("webhook", "remove", "lab", number).out
    assert "No webhooks." in troupe("webhook", "list", "lab").out


def test_invalid_arguments_are_refused(troupe: Troupe) -> None:
    assert "give an address" in troupe("webhook", "add", "lab", "ci", "ftp://a").err
