"""Deliveries: what is sent when, signed, tried again, to a real receiver; where webhooks may not go."""

import hashlib
import hmac
import json
from datetime import timedelta
from ipaddress import ip_address
from typing import Any, get_args

import pytest
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.test import Client
from django.utils import timezone

from tests.webapp.notifications.receiving import Receiver
from training_core.config.networks import allowed
from training_core.errors import ConfigError
from troupe_client.documents.notifications import Event
from webapp.accounts.models import AuditEntry, Membership, User
from webapp.common.outgoing import AddressRefused, address_checked, host_of
from webapp.health.models import Finding
from webapp.health.services import finding_facts
from webapp.ingest.services import batch_store
from webapp.notifications import delivery as engine
from webapp.notifications import services, tasks
from webapp.notifications.delivery import delivery_now
from webapp.notifications.models import Delivery, Destination
from webapp.notifications.services import (
    delivery_again,
    destination_make,
    destination_ping,
    destination_switch,
)
from webapp.runs.lifecycle import EVENTS, event_send, run_add
from webapp.runs.models import Attempt, Run
from webapp.scheduling.services import run_stop


def make(user: User, run: Run, url: str, *events: str) -> tuple[Destination, str]:
    return destination_make(user, run.project, "webhook", "mine", url, events)


def say(run: Run, *events: dict[str, Any]) -> None:
    base = {"run": run.pk, "attempt": 1, "producer": "p", "time": 1.0}
    first = run.event_count + 1
    lines = [json.dumps(base | {"seq": first + place} | each) for place, each in enumerate(events)]
    batch_store(run.pk, "\n".join(lines).encode(), "")
    run.refresh_from_db()


def test_a_run_tells_its_story(run: Run, user: User, receiver: Receiver) -> None:
    make(user, run, receiver.url)
    Attempt.objects.create(run=run, number=1, submission_id="s", state="live")
    status = {"type": "status", "message": "", "facts": {}}
    say(run, status | {"state": "running", "iteration": 0})
    say(run, {"type": "heartbeat", "iteration": 1})
    say(
        run,
        {"type": "checkpoint", "iteration": 1, "path": "checkpoints/iteration-1", "bytes": 5, "metrics": {}},
    )
    finding = Finding.objects.create(
        run=run, rule="kl_blow_up", key="kl", severity="critical", title="Far", first_step=1, last_step=1
    )
    event_send("finding.opened", run, finding=finding_facts(finding))
    say(run, status | {"state": "finished", "iteration": 2})
    run_add(Run(project=run.project, owner=user, name="b", config=run.config, iterations=1))
    for each in Delivery.objects.order_by("pk"):
        assert delivery_now(each.pk)
    told = [json.loads(body) for _, body in receiver.got]
    assert [each["event"] for each in told] == [
        "run.started", "checkpoint.written", "finding.opened", "run.finished", "run.launched",
    ]  # fmt: skip
    assert told[0]["run"]["id"] == run.pk and told[0]["run"]["state"] == "running"
    assert told[1]["checkpoint"]["path"] == "checkpoints/iteration-1"
    facts = {"id": finding.pk, "rule": "kl_blow_up", "key": "kl", "severity": "critical", "first_step": 1}
    assert facts.items() <= told[2]["finding"].items() and told[2]["finding"]["remedy"]
    assert told[3]["run"]["iteration"] == 2 and told[3]["run"]["page"].endswith(f"/runs/{run.pk}/")


def test_the_document_of_a_webhook_lists_all_events() -> None:
    assert get_args(Event) == tuple(EVENTS)


def test_it_is_signed_as_the_page_says(run: Run, user: User, receiver: Receiver) -> None:
    hook, secret = make(user, run, receiver.url)
    delivery = destination_ping(user, hook)
    assert delivery_now(delivery.pk)
    headers, body = receiver.got[0]
    expected = hmac.digest(
        secret.encode(), headers["x-troupe-timestamp"].encode() + b"." + body, hashlib.sha256
    )
    assert headers["x-troupe-signature"] == f"sha256={expected.hex()}"
    assert headers["x-troupe-delivery"] == str(delivery.key) == json.loads(body)["id"]
    assert headers["x-troupe-event"] == "ping" and headers["content-type"] == "application/json"
    stored = json.dumps(list(Destination.objects.values()), default=str)
    assert secret not in stored and "of-the-address" not in stored


def test_only_what_was_asked_for_and_committed(run: Run, user: User, receiver: Receiver) -> None:
    hook, _ = make(user, run, receiver.url, "run.stopped")
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        run_stop(user, run)
        raise ZeroDivisionError
    assert not Delivery.objects.exists()
    run.refresh_from_db()
    destination_switch(user, hook, on=False)
    run_stop(user, run)
    assert not Delivery.objects.exists(), "it is off"
    destination_switch(user, hook, on=True)
    other = Run.objects.create(project=run.project, owner=user, name="b", config=run.config, iterations=1)
    run_stop(user, other)
    run_stop_again = Run.objects.get(pk=other.pk)
    run_stop_again.save()
    assert [each.event for each in Delivery.objects.all()] == ["run.stopped"]


def test_what_fails_is_tried_again_and_given_up(run: Run, user: User, receiver: Receiver) -> None:
    hook, _ = make(user, run, receiver.url)
    delivery = destination_ping(user, hook)
    receiver.answers = [500, 302, 404, 500, 500, 500, 500]
    for pause in (10, 60, 300, 1800, 7200, 21600, None):
        before = timezone.now()
        assert not delivery_now(delivery.pk)
        delivery.refresh_from_db()
        if pause is None:
            assert delivery.next_at is None
        else:
            assert delivery.next_at
            assert before <= delivery.next_at - timedelta(seconds=pause) <= timezone.now()
        Delivery.objects.filter(next_at__isnull=False).update(next_at=timezone.now())
    assert delivery.state == "given up" and len(receiver.got) == 7, "and the redirect was not followed"
    assert [each["code"] for each in delivery.tries] == [500, 302, 404, 500, 500, 500, 500]
    assert not delivery_now(delivery.pk)

    delivery_again(user, delivery)
    assert delivery_now(delivery.pk)
    delivery.refresh_from_db()
    assert (delivery.state, delivery.tries[-1]["code"], len(receiver.got)) == ("delivered", 204, 8)
    assert len({headers["x-troupe-delivery"] for headers, _ in receiver.got}) == 1


def test_a_receiver_that_is_away(run: Run, user: User) -> None:
    hook, _ = make(user, run, "http://127.0.0.1:1/")
    delivery = destination_ping(user, hook)
    assert not delivery_now(delivery.pk)
    delivery.refresh_from_db()
    assert delivery.last["code"] is None and "no response: ConnectError" in str(delivery.last["said"])
    assert delivery.state == "waiting"


def test_a_success_during_a_slow_attempt_is_kept(
    run: Run, user: User, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook, _ = make(user, run, receiver.url)
    delivery = destination_ping(user, hook)
    attempts: list[int] = []

    def attempt(each: Delivery) -> dict[str, Any]:
        attempts.append(each.pk)
        if len(attempts) > 1:
            return {"time": 0.0, "code": 200, "said": "", "seconds": 0.0}
        delivery_again(user, each)
        assert delivery_now(each.pk)
        return {"time": 0.0, "code": 500, "said": "HTTP 500", "seconds": 9.0}

    monkeypatch.setattr(engine, "attempt_make", attempt)
    delivery_now(delivery.pk)
    delivery.refresh_from_db()
    assert (delivery.state, [each["code"] for each in delivery.tries]) == ("delivered", [200, 500])


def test_two_tasks_make_one_try(
    run: Run, user: User, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook, _ = make(user, run, receiver.url)
    delivery = destination_ping(user, hook)
    inner = []

    def once_more(each: Delivery) -> dict[str, Any]:
        inner.append(delivery_now(each.pk))
        return {"time": 0.0, "code": 200, "said": "", "seconds": 0.0}

    monkeypatch.setattr(engine, "attempt_make", once_more)
    assert delivery_now(delivery.pk)
    assert inner == [False]


def test_what_is_due_is_sent_and_what_is_old_forgotten(
    run: Run, user: User, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks.deliver, "delay", tasks.deliver)
    hook, _ = make(user, run, receiver.url)
    due, later, old = (destination_ping(user, hook) for _ in range(3))
    Delivery.objects.filter(pk=later.pk).update(next_at=timezone.now() + timedelta(hours=1))
    Delivery.objects.filter(pk=old.pk).update(created_at=timezone.now() - timedelta(days=31))
    assert tasks.due() == 1
    assert set(Delivery.objects.values_list("pk", "state")) == {(due.pk, "delivered"), (later.pk, "waiting")}
    assert len(receiver.got) == 1


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "100.64.0.1",
        "::1", "fe80::1", "fc00::1", "fec0::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::7f00:1",
        "::127.0.0.1", "2002:7f00:1::1", "2001:0:7f00:1::", "::", "ff02::1",
    ],
)  # fmt: skip
def test_inner_addresses_are_refused_unless_they_are_named(address: str) -> None:
    assert not allowed(ip_address(address), [])
    assert allowed(ip_address("93.184.216.34"), []) and allowed(ip_address("2606:2800:220:1::1"), [])
    assert allowed(ip_address(address), ["any"])


def test_the_connection_itself_is_checked(run: Run, user: User, receiver: Receiver, settings: Any) -> None:
    """A name is looked up when it is used: what it was before does not matter."""
    hook, _ = make(user, run, receiver.url.replace("127.0.0.1", "localhost"))
    settings.TROUPE_WEBHOOK_NETWORKS = ["10.0.0.0/8"]
    delivery = destination_ping(user, hook)
    assert not delivery_now(delivery.pk)
    delivery.refresh_from_db()
    assert "TROUPE_WEBHOOK_NETWORKS" in str(delivery.last["said"]) and not receiver.got
    settings.TROUPE_WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    assert address_checked("127.0.0.1", 80) == "127.0.0.1"
    with pytest.raises(AddressRefused, match="cannot be resolved"):
        address_checked("no-such-host.invalid", 80)


@pytest.mark.parametrize(
    "address",
    [
        "ftp://a/",
        "file:///etc/passwd",
        "http://",
        "a",
        "http://u:p@a/",
        "http://a/ b",
        "http://a:99999/",
        "http://ä/",
    ],
)
def test_what_is_no_address_is_said(run: Run, user: User, address: str) -> None:
    with pytest.raises(ConfigError, match="address"):
        make(user, run, address)
    assert host_of("https://Host.example:8443/path?x=1") == "https://host.example:8443"


def test_who_may_and_what_is_noted(run: Run, user: User, stranger: User, receiver: Receiver) -> None:
    hook, _ = make(user, run, receiver.url)
    Membership.objects.create(project=run.project, user=stranger, level="editor")
    for act in (
        lambda: make(stranger, run, receiver.url),
        lambda: destination_ping(stranger, hook),
        lambda: destination_switch(stranger, hook, on=False),
        lambda: services.destination_remove(stranger, hook),
    ):
        with pytest.raises(PermissionDenied):
            act()
    with pytest.raises(ConfigError, match="already"):
        make(user, run, receiver.url)
    services.destination_remove(user, hook)
    said = AuditEntry.objects.filter(act__startswith="webhook")
    assert [entry.act for entry in said] == ["webhook.remove", "webhook.make"]
    assert "of-the-address" not in json.dumps([entry.details for entry in said])


def test_pages(client: Client, run: Run, user: User, stranger: User, receiver: Receiver) -> None:
    client.force_login(user)
    page = "/account/projects/lab/webhooks/"
    made = client.post(
        page, {"kind": "webhook", "name": "<b>ci", "address": receiver.url, "events": ["run.failed"]}
    ).content.decode()
    assert "&lt;b&gt;ci" in made and "new-secret" in made
    assert "of-the-address" not in client.get(page).content.decode()
    assert client.post(page, {"kind": "webhook", "name": "x", "address": "ftp://a"}).status_code == 400
    hook = Destination.objects.get()
    detail = f"{page}{hook.pk}/"
    client.post(f"{detail}ping/")
    receiver.answers = [500]
    assert not delivery_now(Delivery.objects.get().pk)
    text = client.get(detail).content.decode()
    assert "ping" in text and ">500<" in text and "rejected it" in text
    Delivery.objects.update(state="given up")
    client.post(f"{detail}deliveries/{Delivery.objects.get().pk}/again/")
    assert Delivery.objects.get().state == "waiting"
    client.post(f"{detail}off/")
    assert not Destination.objects.get().enabled
    assert client.post(f"{detail}explode/").status_code == 404
    other = Client()
    other.force_login(stranger)
    Membership.objects.create(project=run.project, user=stranger, level="editor")
    assert other.get(page).status_code == 403
    assert "Notifications" not in other.get("/account/projects/lab/members/").content.decode()
    client.post(f"{detail}remove/")
    assert not Destination.objects.exists()
