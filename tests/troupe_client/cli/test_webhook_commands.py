"""troupe webhook-add, webhooks, webhook-act, deliveries, redeliver against a real server."""

import pytest

from tests.troupe_client.cli.conftest import Troupe

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("connected")]


def test_a_webhook_is_made_tried_and_removed(troupe: Troupe) -> None:
    made = troupe("webhook-add", "lab", "ci", "https://ci.example.org/x", "--event", "run.failed").out
    number = made.split()[0]
    assert "ci  https://ci.example.org  run.failed" in made and "secret: " in made
    assert "secret" not in troupe("webhooks", "lab").out
    ping = troupe("webhook-act", "lab", number, "ping").out
    assert "ping  waiting  0 tries" in ping
    assert troupe("deliveries", "lab", number).out == ping
    assert "waiting" in troupe("redeliver", "lab", number, ping.split()[0]).out
    assert "off" in troupe("webhook-act", "lab", number, "off").out
    assert troupe("webhook-act", "lab", number, "explode").status == 2
    assert "remove" in troupe("webhook-act", "lab", number, "remove").out
    assert "No webhooks." in troupe("webhooks", "lab").out


def test_invalid_arguments_are_refused(troupe: Troupe) -> None:
    assert "give an address" in troupe("webhook-add", "lab", "ci", "ftp://a").err
