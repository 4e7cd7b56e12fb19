"""Channels: messages about findings and other events, to a real receiver; their addresses stay secret."""

import json
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from tests.webapp.api.conftest import caller
from tests.webapp.health.conftest import change, tell, told
from tests.webapp.notifications.receiving import Receiver
from training_core.errors import ConfigError
from webapp.accounts.models import AuditEntry, Membership, User
from webapp.health.models import Finding
from webapp.health.services import run_check
from webapp.notifications.delivery import delivery_now
from webapp.notifications.models import Delivery, Destination
from webapp.notifications.services import destination_make, destination_status, destination_try
from webapp.runs.lifecycle import event_send
from webapp.runs.models import Run

__all__ = ["told"]


def address(receiver: Receiver) -> str:
    return receiver.url.replace("http://", "json://ada:hush-hush@").partition("?")[0]


def make(run: Run, receiver: Receiver, *events: str) -> Destination:
    return destination_make(run.owner, run.project, "channel", "hook", address(receiver), events)[0]


def deliver() -> None:
    for delivery in Delivery.objects.filter(state="waiting"):
        delivery_now(delivery.pk)


def messages(receiver: Receiver) -> list[dict[str, str]]:
    return [json.loads(body) for _, body in receiver.got]


def test_a_channel_hears_of_a_finding_once(told: Run, receiver: Receiver) -> None:
    make(told, receiver)
    tell(told, 1, "policy/planner/kl", [2.0] * 5)
    for _ in range(3):
        run_check(told.pk)
        deliver()
    (message,) = messages(receiver)
    assert message["title"] == "plan-path: kl_blow_up" or message["title"].endswith(": kl_blow_up")
    assert "far from its base model" in message["message"] and "Remedy: " in message["message"]
    assert f"/runs/{told.pk}/health/" in message["message"]
    assert Finding.objects.get().done == "notified hook"
    assert AuditEntry.objects.get(act="finding.notify").details["channels"] == ["hook"]


def test_a_message_is_repeated_and_its_end_is_noted_on_the_finding(told: Run, receiver: Receiver) -> None:
    change(told, kl_blow_up={"action": "stop"})
    make(told, receiver)
    receiver.answers = [500, 500]
    tell(told, 1, "policy/planner/kl", [2.0] * 5)
    run_check(told.pk)
    deliver()
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.left) == ("waiting", 6) and "not sent" in str(delivery.last["said"])
    assert Finding.objects.get().done == "requested to stop the run"
    Delivery.objects.update(left=1, next_at=delivery.created_at)
    deliver()
    assert Finding.objects.get().done == "requested to stop the run; could not reach hook"
    assert AuditEntry.objects.get(act="finding.notify").details["missed"] == ["hook"]


def test_a_rule_without_an_action_sends_no_message(told: Run, receiver: Receiver) -> None:
    change(told, kl_blow_up={"action": "none"})
    make(told, receiver)
    destination_make(told.owner, told.project, "webhook", "program", receiver.url)
    tell(told, 1, "policy/planner/kl", [2.0] * 5)
    run_check(told.pk)
    assert [delivery.destination.kind for delivery in Delivery.objects.all()] == ["webhook"]
    deliver()
    assert Finding.objects.get().done == ""


def test_a_channel_may_select_other_events(run: Run, receiver: Receiver) -> None:
    make(run, receiver, "run.failed")
    run.reason = "no such model"
    event_send("run.finished", run)
    event_send("run.failed", run)
    deliver()
    (message,) = messages(receiver)
    assert message["title"] == f"{run.name}: run.failed"
    assert "no such model" in message["message"] and f"/runs/{run.pk}/" in message["message"]


def test_addresses_stay_secret(
    told: Run, user: User, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    call = caller(user, "admin")
    created = call("projects/lab/channels/", {"name": "hook", "address": address(receiver)})
    assert created.status_code == 201 and created.json()["kind"] == "json"
    path = f"projects/lab/channels/{created.json()['id']}/"
    assert call(f"{path}try/", {}).json()["taken"] is True
    client = Client()
    client.force_login(user)
    texts = [call("projects/lab/channels/").content.decode(), created.content.decode(), caplog.text]
    pages = (f"/runs/{told.pk}/health/", "/account/projects/lab/webhooks/")
    texts += [client.get(page).content.decode() for page in pages]
    texts += [json.dumps(entry.details) for entry in AuditEntry.objects.all()]
    with connection.cursor() as cursor:
        cursor.execute("SELECT row_to_json(row)::text FROM notifications_destination row")
        texts += cursor.fetchone()
    assert "the last message was sent" in texts[0]
    assert len(receiver.got) == 1 and not any("hush-hush" in text for text in texts)
    assert call(f"{path}remove/", {}).status_code == 200
    assert not Destination.objects.exists()


def test_another_secret_key_makes_addresses_unreadable(
    run: Run, user: User, receiver: Receiver, settings: Any
) -> None:
    channel = make(run, receiver)
    assert destination_try(user, channel)
    settings.SECRET_KEY = "another one"
    assert destination_try(user, channel) is False
    assert "another TROUPE_SECRET_KEY" in destination_status(channel) and len(receiver.got) == 1


def test_the_form_keeps_its_values_and_states_why_it_refuses_an_address(run: Run, user: User) -> None:
    client = Client()
    client.force_login(user)
    values = {"kind": "channel", "name": "our chat", "address": "nonsense"}
    response = client.post("/account/projects/lab/webhooks/", values)
    assert response.status_code == 400
    assert "Apprise does not support it" in (text := response.content.decode())
    assert 'value="our chat"' in text and "nonsense" not in text
    assert not Destination.objects.exists()


def test_channels_are_for_owners_and_must_make_sense(run: Run, user: User) -> None:
    call = caller(user, "admin")
    for name, bad in (("a", "nonsense"), ("a", "nosuch://x"), ("", "json://localhost")):
        assert call("projects/lab/channels/", {"name": name, "address": bad}).status_code == 400
    channel, _ = destination_make(user, run.project, "channel", "a", "json://127.0.0.1:9/x")
    assert destination_try(user, channel) is False, "nobody listens there"
    with pytest.raises(ConfigError, match="already"):
        destination_make(user, run.project, "channel", "a", "json://127.0.0.1:9/y")
    assert call(f"projects/lab/webhooks/{channel.pk}/ping/", {}).status_code == 404, "it is not a webhook"
    Membership.objects.update(level="editor")
    assert call("projects/lab/channels/").status_code == 200
    assert call("projects/lab/channels/", {"name": "b", "address": "json://127.0.0.1"}).status_code == 403
    assert call(f"projects/lab/channels/{channel.pk}/remove/", {}).status_code == 403
