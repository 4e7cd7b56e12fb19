"""Every act that changes something leaves an entry in the audit log: all addresses of the URL conf, all operations of MLflow."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, transaction
from django.test import Client

from tests.end_to_end.seed import encoded
from tests.webapp.mlflow.conftest import asker
from tests.webapp.site.routes import Route, routes
from tests.webapp.site.world import World
from training_core.checkpoints import writing
from webapp.accounts.models import AuditEntry
from webapp.accounts.tokens import link_create, token_create
from webapp.artifacts.models import ArtifactAlias
from webapp.checkpoints.models import Checkpoint
from webapp.jobs.models import Job
from webapp.mlflow.audit import EVERY, ONCE
from webapp.mlflow.views import OPERATIONS

ENTRIES, SESSIONS = "accounts_auditentry", "django_session"
PRESET = {"preset": "plan_path_duo"}
RUN = {"id": "abcd2345", "team": {"solver": "shared"}}
BODIES: dict[str, dict[str, Any]] = {
    "api:projects": {"name": "new"},
    "api:members": {"username": "theirs_owner", "level": "viewer"},
    "api:templates": {"name": "new", **PRESET},
    "api:sweeps": {"name": "new", **PRESET, "axes": {"run.seed": [1, 2]}},
    "api:runs": PRESET,
    "api:bulk": {"act": "tag", "value": "x", "runs": ["{second_run}"]},
    "api:views": {"name": "new", "query": {"q": "x"}},
    "api:view": {"name": "renamed"},
    "api:client-runs": RUN,
    "api:run-notes": {"text": "x"},
    "api:run-note-change": {"text": "y"},
    "api:episode-notes": {"turn": 1, "label": "x", "text": "x"},
    "api:queries": {"name": "new", "query": "turns > 2"},
    "api:checkpoints-prune": {"last": 0, "best": 0},
    "api:artifacts-prune": {"last": 0},
    "api:artifacts": {"name": "new", "files": [{"path": "a", "size": 3, "sha256": "ab" * 32}]},
    "api:run-artifacts": {"name": "new", "files": [{"path": "a", "size": 3, "sha256": "ab" * 32}]},
    "api:artifact-aliases": {"alias": "best", "version": "v0"},
    "api:run-artifact-use": {"artifact": "tasks:v0"},
    "api:tokens": {"name": "new", "scope": "read"},
    "api:jobs": {"kind": "check", **PRESET},
    "api:shares": {"kind": "run", "target": "{run}"},
    "api:quota": {"runs": 5},
    "api:webhooks": {"name": "new", "address": "https://example.org/y"},
    "api:channels": {"name": "new", "address": "json://hooks.invalid/y"},
    "api:reports": {"title": "new", "text": "x"},
    "api:report": {"title": "new", "text": "changed", "base": 1},
    "accounts:tokens": {"name": "new", "scope": "read", "days": "30"},
    "accounts:projects": {"name": "new"},
    "accounts:members": {"username": "theirs_owner", "level": "viewer"},
    "accounts:password": {
        "old_password": "correct horse battery", "new_password1": "another horse 7", "new_password2": "another horse 7",
    },
    "experiments:new": {"project": "mine", **PRESET},
    "experiments:template-save": {"template_name": "new", "project": "mine", **PRESET},
    "runs:bulk": {"act": "tag", "value": "x", "runs": "{second_run}"},
    "runs:view-save": {"name": "new", "q": "x"},
    "runs:note": {"text": "x"},
    "runs:note-change": {"text": "y"},
    "runs:headline": {"headline": "loss"},
    "transcripts:query-save": {"name": "new", "query": "turns > 2"},
    "transcripts:note": {"turn": "1", "label": "x", "text": "x"},
    "artifacts:alias": {"alias": "best", "version": "v0"},
    "runs:checkpoints-prune": {"last": "0", "best": "0"},
    "artifacts:prune": {"last": "0"},
    "compare:share": {"query": "runs={run},{second_run}"},
    "reports:new": {"title": "new", "text": "x"},
    "reports:edit": {"title": "new", "text": "changed", "base": "1"},
    "shares:list": {"run": "{run}", "days": "30"},
    "quotas:page": {"runs": "5"},
    "notifications:list": {"name": "new", "kind": "webhook", "address": "https://example.org/y"},
}  # fmt: skip
"""What changes something at an address; elsewhere the address says it all."""
CALCULATED = "it only calculates"
SAME = "the operation of the API with the same service has one"
REASONS = {
    "accounts:link": "a test of its own",
    "accounts:login": "a test of its own",
    "accounts:logout": "it ends the session of the browser",
    "api:estimate": CALCULATED,
    "api:profiles": CALCULATED,
    "api:sweep-plan": CALCULATED,
    "api:team": CALCULATED,
    "api:team-picture": CALCULATED,
    "api:checkpoint-fork": "the config of the run has fields of its client, which no launch takes; tests of forks read the entry",
    "api:finding-fork": "as api:checkpoint-fork",
    "api:finding-reopen": "the finding is open; health:act does both",
    "api:member-remove": "the only owner stays; accounts:member-remove removes another",
    "api:webhook-on": "the webhook is on; notifications:act does both",
    "api:run-resume": "the run is running; runs:act does both",
    "experiments:data": CALCULATED,
    "experiments:sweep-new": SAME,
    "health:fork": SAME,
    "home": "it redirects",
    "jobs:start": SAME,
    "mlflow:file-of-server": "a test of its own",
    "mlflow:files-of-server": "it only reads",
    "mlflow:operation-of-server": "a test of its own",
    "runs:edit": "the run is running; runs:act resumes and has one",
    "sweeps": "it redirects",
    "experiments:edit": CALCULATED,
    "experiments:estimate": CALCULATED,
    "experiments:sweep-check": CALCULATED,
    "jobs:form-preview": CALCULATED,
    "reports:preview": CALCULATED,
    "api:artifact-content": "bytes without a name; the version that names them has the entry",
    "api:run-artifact-use": "the use itself is the record: which run used which version, and when",
    "api:job-say": "the conversation itself is the record",
    "jobs:say": "the conversation itself is the record",
    "api:run-events": "a test of its own",
    "mlflow:file": "a test of its own",
    "mlflow:file-of-project": "a test of its own",
    "mlflow:operation": "a test of its own",
    "mlflow:operation-of-project": "a test of its own",
    "mlflow:files": "it only reads",
    "mlflow:files-of-project": "it only reads",
}
"""Address -> why it leaves no entry here."""


def written() -> dict[str, int]:
    """Table -> rows inserted, updated and deleted in this transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname, n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_xact_user_tables")
        return dict(cursor.fetchall())


def tables_written(route: Route, method: str, path: str, world: World) -> set[str] | None:
    """The tables that the owner's request writes; None if the address does not take the method. What it writes is undone."""
    client = Client(raise_request_exception=False)
    client.force_login(world.owner)
    text = json.dumps(BODIES.get(route.name, {}))
    for name, thing in world.things.items():
        text = text.replace(f"{{{name}}}", str(thing))
    folders_write(world)
    before = written()
    with transaction.atomic():
        if route.api:
            status = client.generic(method, path, text, content_type="application/json").status_code
        else:
            status = client.post(path, json.loads(text)).status_code
        after = written()
        transaction.set_rollback(True)
    if status >= 400:
        return None if status == 405 else set()  # what it has written is undone already
    return {table for table, rows in after.items() if rows != before.get(table, 0)} - {SESSIONS}


def folders_write(world: World) -> None:
    """Write the folders of the checkpoints that a deletion, undone in the database only, has set aside."""
    for iteration in (10, 11):
        folder = Path(settings.TROUPE_HOME) / "runs" / str(world.things["run"]) / "checkpoints"
        if not (folder / f"iteration-{iteration:06d}").exists():
            with writing(folder, iteration, {}) as draft:
                (draft / "planner").mkdir()


def prepare(world: World) -> None:
    """Make the checkpoint, the version and the job such that they may be deleted or cancelled."""
    later = Checkpoint.objects.get(pk=world.things["checkpoint"])
    later.pk, later.iteration, later.path = None, 11, "checkpoints/iteration-000011"
    later.save()
    ArtifactAlias.objects.all().delete()
    Job.objects.update(state=Job.State.QUEUED)


@pytest.mark.slow
def test_every_change_has_an_entry(worlds: tuple[World, World]) -> None:
    mine = worlds[0]
    prepare(mine)
    unchanged, silent = set(), []
    for route in routes():
        found = [
            (f"{method} {path}", tables)
            for path in route.paths(mine.things)
            for method in set(route.methods) - {"GET"}
            if (tables := tables_written(route, method, path, mine)) is not None
        ]
        if route.name not in REASONS:
            silent += [
                f"{name}: {sorted(tables)}" for name, tables in found if tables and ENTRIES not in tables
            ]
        if found and not any(tables for _, tables in found):
            unchanged.add(route.name)
    assert not silent, "\n".join(silent)
    idle = sorted(unchanged - set(REASONS))
    assert not idle, f"give a body that changes something, or the reason: {idle}"


READING = {"experiments/search", "runs/search", "logged-models/search"}
BY_SERVICES = {"runs/create": "run.begin", "runs/delete": "run.archive", "runs/restore": "run.unarchive"}
ANSWERS = {
    "runs/log-metric": {"value": 1.0},
    "runs/log-parameter": {"key": "other"},
    "runs/log-model": {"model_json": "{}"},
    "logged-models/ID": {"status": "LOGGED_MODEL_READY"},
    "logged-models/ID/tags": {"tags": [{"key": "k", "value": "1"}]},
}
"""Operation -> arguments other than those of most."""
USUAL = {"key": "k", "value": "1", "timestamp": 1, "new_name": "f", "status": "FINISHED"}


def acts() -> list[str]:
    return list(AuditEntry.objects.order_by("pk").values_list("act", flat=True))


@pytest.mark.django_db
def test_every_operation_of_mlflow_has_an_entry(worlds: tuple[World, World]) -> None:
    changing = {key for key in OPERATIONS if key[0] != "GET"} - {("POST", name) for name in READING}
    rest = [("POST", name) for name in (*ONCE, *BY_SERVICES)]
    assert changing == set(EVERY) | set(rest)
    ask = asker(token_create(worlds[0].owner, "all", ["admin"])[1], "/mlflow/mine")
    AuditEntry.objects.all().delete()
    experiment = ask("POST", "experiments/create", name="e")["experiment_id"]
    run = ask("POST", "runs/create", experiment_id=experiment)["run"]["info"]["run_id"]
    model = ask("POST", "logged-models", source_run_id=run)["model"]["info"]["model_id"]
    made = {("POST", name) for name in ("experiments/create", "runs/create", "logged-models")}
    deletion = ("DELETE", "logged-models/ID")
    for method, name in [*(key for key in (*EVERY, *rest) if key not in made | {deletion}), deletion]:
        operation = name.replace("ID", model).replace("KEY", "k")
        more = USUAL | ANSWERS.get(name, {})
        ask(method, operation, experiment_id=experiment, run_id=run, **more)
    every = [act for key, act in EVERY.items() if key not in made | {deletion}]
    assert acts() == [
        "experiment.create", "run.begin", "model.create", *every, "run.report", "run.archive", "run.unarchive", "model.delete",
    ]  # fmt: skip
    entries = AuditEntry.objects.all()
    assert {entry.project_id for entry in entries} == {worlds[0].project.pk}
    assert all(entry.token and entry.target in (experiment, run, model) for entry in entries)


@pytest.mark.django_db
def test_logins_and_logouts_of_a_person_have_entries(worlds: tuple[World, World]) -> None:
    owner, client = worlds[0].owner, Client()
    AuditEntry.objects.all().delete()
    client.post("/account/login/", {"username": owner.username, "password": "correct horse battery"})
    Client().get(f"/account/link/{link_create(owner)}/")
    token_create(owner, "mine", ["read"])
    client.post(f"/account/tokens/{worlds[0].things['token']}/revoke/")
    assert acts() == ["account.login", "account.login", "token.revoke"]


@pytest.mark.django_db
def test_reports_with_a_personal_token_have_one_entry(worlds: tuple[World, World]) -> None:
    mine = worlds[0]
    run_id = str(mine.things["run"])
    AuditEntry.objects.all().delete()
    for scope, run in (("launch", None), ("ingest", run_id)):
        secret = token_create(mine.owner, scope, [scope], run_id=run)[1]
        client = Client(headers={"Authorization": f"Bearer {secret}"})
        for seq in (1, 2):
            event = {
                "run": run_id,
                "attempt": 1,
                "producer": scope,
                "seq": seq,
                "time": 1.0,
                "type": "heartbeat",
                "iteration": 1,
            }
            sent = client.post(
                f"/api/v1/runs/{run_id}/events/", encoded([event]), content_type="application/x-ndjson"
            )
            assert sent.status_code == 200, sent.content
    (entry,) = AuditEntry.objects.all()
    assert (entry.act, entry.target, entry.project) == ("run.report", run_id, mine.project)
