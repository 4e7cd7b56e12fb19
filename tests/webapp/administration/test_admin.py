"""The Django admin: every model, for administrators alone, no secrets, nothing inline."""

import re
import subprocess
import sys
import uuid
from typing import Any

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import models
from django.test import Client

from tests.end_to_end.seed import Story, encoded
from webapp.accounts.models import AuditEntry, User
from webapp.accounts.tokens import link_create, token_create
from webapp.administration.site import SECRETS, SHOWN, site
from webapp.ingest.services import batch_store
from webapp.notifications.services import destination_make, destination_ping
from webapp.quotas.models import Quota
from webapp.runs.models import Attempt, Run
from webapp.shares.services import share_make

OURS = sorted(each._meta.label for each in apps.get_models() if each.__module__.startswith("webapp."))


@pytest.fixture
def stored(run: Run, user: User) -> list[str]:
    """A run with a story, and a row of every model; returns secrets."""
    Attempt.objects.create(run=run, number=1, state="live", submission_id=f"{run.pk}-1")
    story = Story(run.pk)
    batch_store(run.pk, encoded(story.opening()), "")
    batch_store(run.pk, encoded(story.iterations(0, 3, whole=1)), "")
    hook, signing = destination_make(user, run.project, "webhook", "ci", "https://ci.example.org/hidden-path")
    destination_ping(user, hook)
    secrets = [
        signing, "hidden-path", share_make(user, run.project, "run", run.pk)[1], token_create(user, "t", ["read"])[1],
        link_create(user),
    ]  # fmt: skip
    for label in OURS:
        model = apps.get_model(label)
        if not model._default_manager.exists():
            filled(model)
    return secrets


VALUES: dict[Any, object] = {
    models.UUIDField: uuid.uuid4(), models.IntegerField: 1, models.FloatField: 1, models.BinaryField: b"x",
    models.DateTimeField: "2026-01-01T00:00:00Z", models.JSONField: {},
}  # fmt: skip


def filled(model: type[models.Model]) -> models.Model:
    """A row with something in every field that asks for it."""
    values: dict[str, Any] = {}
    for each in model._meta.concrete_fields:
        if (
            each.has_default()
            or each.null
            or each.auto_created
            or getattr(each, "auto_now", False)
            or getattr(each, "auto_now_add", False)
        ):
            continue
        if each.is_relation:
            other: Any = each.related_model
            values[each.name] = other._default_manager.first() or filled(other)
        elif known := [value for kinds, value in VALUES.items() if isinstance(each, kinds)]:
            values[each.name] = known[0]
        elif not each.blank:
            values[each.name] = "kept-secret" if each.name in SECRETS else "x"
    return model._default_manager.create(**values)


@pytest.fixture
def root(db: None) -> Client:
    administrator = User.objects.create_user("root", is_superuser=True)
    client = Client()
    client.force_login(administrator)
    return client


def test_every_model_is_there() -> None:
    assert set(SHOWN) <= set(OURS)
    assert sorted(each._meta.label for each in site._registry) == OURS


def address(label: str, below: str = "") -> str:
    return f"/admin/{label.lower().replace('.', '/')}/{below}"


@pytest.mark.slow
def test_every_list_and_every_row_opens_without_secrets(root: Client, stored: list[str]) -> None:
    digests = [
        str(value)
        for label in OURS
        for name in SECRETS & {each.name for each in apps.get_model(label)._meta.concrete_fields}
        for value in apps.get_model(label)._default_manager.values_list(name, flat=True)
    ]
    assert len(digests) >= 6
    for label in OURS:
        row = apps.get_model(label)._default_manager.order_by("-pk").first()
        assert row is not None
        for page in ("", "?q=a", f"{row.pk}/change/"):
            answer = root.get(address(label, page))
            assert answer.status_code == 200, f"{label} {page}: {answer.status_code}"
            text = answer.content.decode()
            assert not [each for each in (*stored, *digests) if each in text], (
                f"{label} {page} shows a secret"
            )
            assert not re.search(r"<script(?![^>]*\bsrc=)[^>]*>\s*\S", text), (
                f"{label} {page} has an inline script"
            )
            assert not re.search(r"<[^>]+\son[a-z]+=", text) and "javascript:" not in text
            assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
    assert root.get("/admin/").status_code == 200


def test_nobody_else_gets_in(ada: Client, stored: list[str]) -> None:
    for path in ("", address("runs.Run")[7:], address("accounts.User")[7:]):
        answer = ada.get(f"/admin/{path}")
        assert answer.status_code == 302 and answer.url.startswith(("/account/login/", "/admin/login/"))
        assert Client().get(f"/admin/{path}").status_code == 302
        assert ada.get(f"/admin/{path}", follow=True).status_code == 403, (
            "a login again would lead in circles"
        )
    assert Client().get("/admin/login/").url.startswith("/account/login/")


def test_rows_are_read_but_for_a_few_fields(root: Client, stored: list[str], run: Run, user: User) -> None:
    assert root.post(address("runs.Run", f"{run.pk}/change/"), {"name": "hacked"}).status_code == 403
    assert root.post(address("runs.Run", f"{run.pk}/delete/"), {"post": "yes"}).status_code == 403
    assert root.get(address("runs.Run", "add/")).status_code == 403
    change = address("accounts.User", f"{user.pk}/change/")
    assert (
        root.post(change, {"email": "a@example.org", "is_active": "on", "username": "hacked"}).status_code
        == 302
    )
    user.refresh_from_db()
    assert (user.email, user.username) == ("a@example.org", "ada")
    Quota.objects.all().delete()
    made = root.post(
        address("quotas.Quota", "add/"), {"project": run.project_id, "runs": "3", "locked": "on"}
    )
    assert made.status_code == 302
    quota = Quota.objects.get()
    assert (quota.runs, quota.locked) == (3, True)
    said = AuditEntry.objects.filter(act="admin.change")
    assert [entry.target.split()[0] for entry in said] == ["quotas.Quota", "accounts.User"]


def test_administrators_are_made_by_a_command(user: User, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("administrator", "ada")
    user.refresh_from_db()
    assert user.is_superuser and "may use /admin/" in capsys.readouterr().out
    call_command("administrator", "ada", "--remove")
    user.refresh_from_db()
    assert not user.is_superuser
    with pytest.raises(CommandError, match="no account"):
        call_command("administrator", "nobody")


@pytest.mark.slow
def test_the_site_is_imported_when_it_is_asked_for() -> None:
    """Neither Django's start, which every command waits for, nor the page that is asked for bring it in."""
    script = (
        "import django, sys; django.setup(); from django.urls import resolve; "
        "resolve('/runs/'); assert 'webapp.administration.site' not in sys.modules, 'too early'; "
        "resolve('/admin/'); assert 'webapp.administration.site' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=500)
