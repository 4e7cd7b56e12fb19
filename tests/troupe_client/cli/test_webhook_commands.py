"""troupe webhook against a real server."""

import pytest

from tests.troupe_client.cli.conftest import Troupe

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("connected")]


def test_a_webhook_is_made_tried_and_removed(troupe: Troupe) -> None:
    made = troupe("webhook", "add", "lab", "ci", "https://ci.example.org/x", "--event", "run.failed").out
    number = made.split()[0]
    assert "ci  https://ci.example.org  run.failed" in made and "secret: " in made
    assert "secret" not in troupe("webhook", "list", "lab").out
    ping = troupe("webhook", "ping", "lab", number).out
    assert "ping  waiting  0 tries" in ping
    assert troupe("webhook", "deliveries", "lab", number).out == ping
    assert "waiting" in troupe("webhook", "redeliver", "lab", number, ping.split()[0]).out
    assert "off" in troupe("webhook", "disable", "lab", number).out
    assert "off" not in troupe("webhook", "enable", "lab", number).out
    assert "remove" in troupe("webhook", "remove", "lab", number).out
    assert "No webhooks." in troupe("webhook", "list", "lab").out


def test_invalid_arguments_are_refused(troupe: Troupe) -> None:
    assert "give an address" in troupe("webhook", "add", "lab", "ci", "ftp://a").err
