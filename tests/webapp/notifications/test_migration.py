"""Webhooks and channels of former versions become destinations; their numbers, secrets and deliveries stay."""

import json
from collections.abc import Iterator

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from webapp.accounts.models import Project
from webapp.common.sealing import seal
from webapp.notifications.models import Delivery, Destination

pytestmark = pytest.mark.django_db(transaction=True)
FORMER = """
    CREATE TABLE webhooks_webhook (
        id bigint PRIMARY KEY, project_id bigint, name text, host text, sealed_address text, sealed_secret text, events jsonb,
        enabled boolean, created_by_id bigint, created_at timestamptz
    );
    CREATE TABLE webhooks_delivery (
        id bigint PRIMARY KEY, webhook_id bigint REFERENCES webhooks_webhook, key uuid, event text, payload jsonb, state text,
        next_at timestamptz, tries jsonb, "left" int, created_at timestamptz
    );
    CREATE TABLE health_channel (
        id bigint PRIMARY KEY, project_id bigint, name text, kind text, sealed text, said text, created_at timestamptz
    );
"""
TRIES = [{"time": 1.0, "code": 500, "said": "the receiver rejected it", "seconds": 0.1}]


def migrate(*targets: tuple[str, str | None]) -> None:
    MigrationExecutor(connection).migrate(list(targets))


@pytest.fixture
def _former() -> Iterator[None]:
    """The tables before destinations; afterwards those of today, whatever failed."""
    migrate(("notifications", None))
    with connection.cursor() as cursor:
        cursor.execute(FORMER)
    yield
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())


@pytest.mark.usefixtures("_former")
def test_former_webhooks_and_channels_become_destinations() -> None:
    project = Project.objects.create(slug="lab", name="Lab")
    sealed = [seal("https://example.org/x", "webhook address"), seal("key", "webhook secret")]
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO webhooks_webhook VALUES (2, %s, 'ci', 'https://example.org', %s, %s, %s, false, NULL, now())",
            [project.pk, *sealed, json.dumps(["run.failed"])],
        )
        cursor.execute(
            "INSERT INTO webhooks_delivery VALUES (7, 2, gen_random_uuid(), 'ping', '{}', 'waiting', now(), %s, 3, now())",
            [json.dumps(TRIES)],
        )
        for number, name in ((1, "chat"), (2, "ci")):
            cursor.execute(
                "INSERT INTO health_channel VALUES (%s, %s, %s, 'slack', %s, 'the last message was sent', now())",
                [number, project.pk, name, seal("slack://a/b/c", "channel address")],
            )
    migrate(("notifications", "0001_initial"))
    chat, webhook, other = Destination.objects.order_by("pk")
    assert (webhook.pk, webhook.kind, webhook.label, webhook.enabled) == (
        2,
        "webhook",
        "https://example.org",
        False,
    )
    assert (webhook.address(), webhook.secret(), webhook.events) == (
        "https://example.org/x",
        "key",
        ["run.failed"],
    )
    assert (chat.pk, chat.kind, chat.label, chat.events) == (1, "channel", "slack", ["finding.opened"])
    assert chat.address() == other.address() == "slack://a/b/c" and chat.enabled
    assert other.pk > 2 and other.name == "ci", "the number 2 is a webhook's"
    delivery = Delivery.objects.get()
    assert (delivery.pk, delivery.destination, delivery.left, delivery.tries) == (7, webhook, 3, TRIES)
    later = Destination.objects.create(project=project, kind="webhook", name="later", label="x")
    assert later.pk > other.pk, "numbers go on"
    assert not {"webhooks_webhook", "health_channel"} & set(connection.introspection.table_names())
