"""The database: models agree with their migrations, and what earlier versions have stored becomes what it is today."""

import json
from collections.abc import Iterator

import pytest
from django.core.checks import ERROR, run_checks
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from webapp.accounts.models import Project, User
from webapp.common.sealing import seal
from webapp.notifications.models import Delivery, Destination
from webapp.reports.services import report_create, report_save
from webapp.runs.models import Run

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
def _today() -> Iterator[None]:
    """The tables of today afterwards, whatever failed."""
    yield
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())


def test_every_model_change_has_a_migration_and_no_system_check_fails() -> None:
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)
    assert [found for found in run_checks(include_deployment_checks=False) if found.level >= ERROR] == []


@pytest.mark.usefixtures("_today")
def test_former_webhooks_and_channels_become_destinations() -> None:
    migrate(("notifications", None))
    project = Project.objects.create(slug="lab", name="Lab")
    sealed = [seal("https://example.org/x", "webhook address"), seal("key", "webhook secret")]
    with connection.cursor() as cursor:
        cursor.execute(FORMER)
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
    facts = (webhook.pk, webhook.kind, webhook.label, webhook.enabled)
    assert facts == (2, "webhook", "https://example.org", False)
    said = (webhook.address(), webhook.secret(), webhook.events)
    assert said == ("https://example.org/x", "key", ["run.failed"])
    assert (chat.pk, chat.kind, chat.label, chat.events) == (1, "channel", "slack", ["finding.opened"])
    assert chat.address() == other.address() == "slack://a/b/c" and chat.enabled
    assert other.pk > 2 and other.name == "ci", "the number 2 is a webhook's"
    delivery = Delivery.objects.get()
    assert (delivery.pk, delivery.destination, delivery.left, delivery.tries) == (7, webhook, 3, TRIES)
    later = Destination.objects.create(project=project, kind="webhook", name="later", label="x")
    assert later.pk > other.pk, "numbers go on"
    assert not {"webhooks_webhook", "health_channel"} & set(connection.introspection.table_names())


@pytest.mark.usefixtures("_today")
def test_late_saves_have_the_kind_conflict_after_the_migration(user: User, project: Project) -> None:
    report = report_create(user, project, "First", "one")
    report_save(user, report, "First", "two", 1)
    assert report_save(user, report, "First", "late", 1).conflict
    for name, kind in (("0001_initial", "beside"), ("0002_conflict", "conflict")):
        migrate(("reports", name))
        assert [version.kind for version in report.versions.all()] == [kind, "saved", "saved"]


@pytest.mark.usefixtures("_today")
def test_stored_runs_pay_a_teams_reward_as_before() -> None:
    project = Project.objects.create(slug="lab", name="Lab")
    owner = User.objects.create_user("ada")
    old, new, networks = {"team_weight": 1.0}, {"team_weight": 1.0, "team_reward_to": "team"}, {"gamma": 0.9}
    runs = [
        Run.objects.create(project=project, owner=owner, iterations=1, config={"algorithm": algorithm})
        for algorithm in (old, new, networks)
    ]
    migrate(("runs", "0023_long_steps"))
    migrate(("runs", "0024_team_reward_to"))
    stored = [Run.objects.get(pk=run.pk).config["algorithm"] for run in runs]
    assert stored == [old | {"team_reward_to": "speaker"}, new, networks]
