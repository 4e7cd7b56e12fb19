"""Quotas: what waits, what it says, and that nothing is lost."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.test import Client

from tests.webapp.elements import elements
from training_core.config.files import parse_config
from training_core.errors import ConfigError
from webapp.accounts.models import AuditEntry, Membership, Project, User
from webapp.checkpoints.models import Checkpoint
from webapp.ingest.batches import IngestRejected
from webapp.ingest.services import batch_store, spool_store
from webapp.metrics.selectors import series_read
from webapp.quotas.models import Quota
from webapp.quotas.services import HELD, bytes_stored, points_stored, quota_measure, quota_set, usage_read
from webapp.reconciliation import services as reconciliation
from webapp.reconciliation.services import runs_reconcile_now
from webapp.runs.models import Attempt, Run
from webapp.scheduling import submission
from webapp.scheduling.submission import run_submit_now
from workers.launchers.launcher import Capacity, JobState
from workers.launchers.registry import FakeLauncher
from workers.reporting.reporter import Reporter
from workers.sizing.placement import demand
from workers.storage.folders import RunFolder


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    runs: list[str] = []
    monkeypatch.setattr("webapp.quotas.services.submit_soon", runs.append)
    return runs


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> FakeLauncher:
    fake = FakeLauncher(devices=Capacity(64.0, 0.0, 64.0, 0.0))
    monkeypatch.setattr(submission, "make_launcher", lambda kind: fake)
    monkeypatch.setattr(reconciliation, "make_launcher", lambda kind: fake)
    settings.TROUPE_HOME = tmp_path
    return fake


def another(run: Run, **fields: Any) -> Run:
    values = {"project": run.project, "owner": run.owner, "config": run.config, "iterations": 9} | fields
    return Run.objects.create(name="other", **values)


def reason(run: Run) -> str:
    run.refresh_from_db()
    return run.reason


def test_runs_at_once(
    run: Run, user: User, launcher: FakeLauncher, sent: list[str], django_capture_on_commit_callbacks: Any
) -> None:
    quota_set(user, run.project, {"runs": 1})
    busy = another(run, state="running")
    assert not run_submit_now(run.pk)
    assert reason(run) == "Waiting for the project's quota of 1 concurrent runs; 1 are active."
    with django_capture_on_commit_callbacks(execute=True):
        quota_set(user, run.project, {"runs": 2})
    assert sent == [run.pk], "those that wait are looked at again"
    assert run_submit_now(run.pk)
    busy.delete()


def test_devices_at_once(run: Run, user: User, launcher: FakeLauncher) -> None:
    wants = demand(parse_config(run.config)).cpus
    quota_set(user, run.project, {"cpus": wants * 1.5})
    another(run, state="running")
    assert not run_submit_now(run.pk)
    assert reason(run) == (
        f"Waiting for the project's quota of {wants * 1.5:g} CPU cores: it needs {wants:g}, and {wants:g} are in use."
    )
    quota_set(user, run.project, {"cpus": wants / 2})
    assert not run_submit_now(run.pk)
    assert "more than the project's quota" in reason(run)
    quota_set(user, run.project, {"cpus": wants * 2})
    assert run_submit_now(run.pk)


def test_what_waits_for_quota_keeps_nobody_else_waiting(run: Run, user: User, launcher: FakeLauncher) -> None:
    wants = demand(parse_config(run.config)).cpus
    launcher.devices = Capacity(wants * 1.5, 0.0, wants * 1.5, 0.0)
    quota_set(user, run.project, {"runs": 0})
    elsewhere = Project.objects.create(slug="else", name="Else")
    younger = another(run, project=elsewhere)
    assert run_submit_now(younger.pk), "the older run holds no claim while its quota holds it"


Event = Callable[..., bytes]


@pytest.fixture
def event(run: Run) -> Event:
    Attempt.objects.create(run=run, number=1, submission_id="s", state="live")
    Run.objects.filter(pk=run.pk).update(state="running")

    def line(seq: int) -> bytes:
        return (
            f'{{"run": "{run.pk}", "attempt": 1, "producer": "p", "seq": {seq}, "time": 1.0, "type": "metrics", '
            f'"step": {seq}, "values": {{"a": {seq}}}}}\n'
        ).encode()

    return line


def test_events_wait_until_there_is_room(run: Run, user: User, event: Event) -> None:
    for seq in (1, 2, 3):
        batch_store(run.pk, event(seq), "")
    quota = quota_set(user, run.project, {"points": 3})
    assert quota.stored_points == 3 == points_stored(run.project)
    before = Attempt.objects.get().heartbeat_at
    run.refresh_from_db()
    run.stop_requested = "stop"
    run.save()
    with pytest.raises(IngestRejected) as refused:
        batch_store(run.pk, event(4), "")
    assert refused.value.status == 507
    assert (refused.value.payload["code"], refused.value.payload["command"]) == ("quota", "stop")
    assert "stores 3 points, and its quota is 3" in refused.value.payload["detail"]
    assert reason(run).startswith(HELD) and run.event_count == 3
    assert Attempt.objects.get().heartbeat_at > before, "it is heard, though not stored"
    quota_set(user, run.project, {"points": 10})
    assert batch_store(run.pk, event(4), "").acknowledged == 4
    assert series_read(run, ["a"])["a"]["values"] == [1.0, 2.0, 3.0, 4.0]
    assert reason(run) == ""


def test_a_run_that_ended_meanwhile_waits_for_its_last_word(
    run: Run, user: User, launcher: FakeLauncher, tmp_path: Path
) -> None:
    """Else it would be taken for lost, and started again."""
    assert run_submit_now(run.pk)
    attempt = run.attempts.get()
    folder = RunFolder(tmp_path / "runs" / run.pk)
    reporter = Reporter(folder, run.pk, 1)
    reporter.status("running", 0)
    reporter.metrics(1, {"a": 1.0})
    reporter.status("finished", 1)
    reporter.close()
    quota_set(user, run.project, {"points": 0})
    launcher.set(attempt.submission_id, JobState.SUCCEEDED)
    runs_reconcile_now()
    run.refresh_from_db()
    assert (run.state, run.attempts.count()) == ("starting", 1)
    assert "The job has ended. Events wait on the trainer's disk" in run.reason
    assert not spool_store(run.pk, folder.spool(1))
    quota_set(user, run.project, {"points": None})
    runs_reconcile_now()
    run.refresh_from_db()
    assert (run.state, run.event_count) == ("finished", 3)
    assert series_read(run, ["a"])["a"]["values"] == [1.0]


def test_gigabytes_count_checkpoints_that_are_kept(run: Run, user: User, launcher: FakeLauncher) -> None:
    for number, removed in ((1, False), (2, True)):
        Checkpoint.objects.create(
            run=run, attempt=1, cursor=1, iteration=number, path=f"c-{number}", size=3 * 10**9,
            removed=removed, time="2026-01-01T00:00:00Z",
        )  # fmt: skip
    assert bytes_stored(run.project) == 3 * 10**9
    quota_set(user, run.project, {"gigabytes": 2.5})
    assert not run_submit_now(run.pk)
    assert reason(run) == "Waiting: the project stores 3 GB, and its quota is 2.5 GB."
    assert run.remedy == "Remove checkpoints, or request a higher quota."
    Checkpoint.objects.update(removed=True)
    quota_measure(Quota.objects.get())
    assert run_submit_now(run.pk)
    used = usage_read(run.project)
    assert (used.runs, used.gigabytes) == (1, 0.0)


def test_who_may_set_them(run: Run, user: User, stranger: User) -> None:
    Membership.objects.create(project=run.project, user=stranger, level="editor")
    with pytest.raises(PermissionDenied, match="only owners"):
        quota_set(stranger, run.project, {"runs": 1})
    assert not Quota.objects.exists()
    quota_set(user, run.project, {"runs": 1})
    assert AuditEntry.objects.get().details == {"runs": 1}
    Quota.objects.update(locked=True)
    with pytest.raises(PermissionDenied, match="administrator"):
        quota_set(user, run.project, {"runs": None})
    Quota.objects.update(locked=False)
    with pytest.raises(ConfigError):
        quota_set(user, run.project, {"runs": -1})
    assert Quota.objects.get().runs == 1


def test_a_rejected_form_shows_the_quotas_in_force(ada: Client, run: Run, user: User) -> None:
    quota_set(user, run.project, {"runs": 2})
    page = ada.post("/account/projects/lab/quotas/", {"runs": "77", "cpus": "8", "gpus": "-2"})
    assert page.status_code == 400 and {'value="77"', 'value="-2"'} <= set(page.content.decode().split())
    shown = [cell.text for cell in elements(page, "td[data-label=Quota]")]
    assert shown == ["2", "no limit", "no limit", "no limit", "no limit"]


def test_page_and_api(ada: Client, run: Run, user: User, stranger: User) -> None:
    page = "/account/projects/lab/quotas/"
    assert "no limit" in ada.get(page).content.decode()
    assert ada.post(page, {"runs": "2", "gigabytes": "1.5"}).status_code == 302
    assert ada.post(page, {"runs": "-2"}).status_code == 400
    text = ada.get(page).content.decode()
    assert 'value="2"' in text and "<progress" in text
