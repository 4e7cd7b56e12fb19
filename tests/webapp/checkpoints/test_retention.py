"""Pins, deletion and retention: real on disk, and never what somebody still needs."""

from pathlib import Path

import pytest
from django.core.exceptions import PermissionDenied
from django.test import Client

from tests.webapp.checkpoints.conftest import Make
from training_core.checkpoints import retain, writing
from troupe_client.documents.checkpoints import CheckpointsPruneBody, CheckpointsPruned
from webapp.accounts.models import AuditEntry, User
from webapp.checkpoints.models import Checkpoint
from webapp.checkpoints.services import checkpoint_do, checkpoints_prune
from webapp.jobs.models import Job
from webapp.runs.models import Run
from webapp.runs.states import TransitionRefused
from webapp.scheduling.forking import run_fork

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ended(run: Run) -> Run:
    """A run that needs none of its checkpoints any more."""
    Run.objects.filter(pk=run.pk).update(state="finished")
    run.refresh_from_db()
    return run


def on_disk(home: Path, run: Run) -> list[str]:
    return sorted(item.name for item in (home / "runs" / run.pk / "checkpoints").iterdir())


def test_what_is_deleted_is_gone_from_disk(ended: Run, user: User, make: Make, tmp_path: Path) -> None:
    first, second = make(20, best=True), make(40)
    assert checkpoint_do(user, first, "delete").removed
    assert on_disk(tmp_path, ended) == ["iteration-000040"]
    with pytest.raises(TransitionRefused, match="already removed"):
        checkpoint_do(user, first, "delete")
    assert AuditEntry.objects.get(act="checkpoint.delete").target == f"{ended.pk}/{first.path}"
    assert not Checkpoint.objects.get(pk=second.pk).removed


def test_what_somebody_needs_is_kept(run: Run, user: User, make: Make, tmp_path: Path) -> None:
    Run.objects.filter(pk=run.pk).update(state="running")
    pinned, forked, played, best, last = (make(each, best=each == 80) for each in (20, 40, 60, 80, 100))
    checkpoint_do(user, pinned, "pin")
    run_fork(user, forked)
    Job.objects.create(
        kind="evaluate", project=run.project, owner=user, run=run, checkpoint=played, config={}, state="running"
    )  # fmt: skip
    for row, reason in (
        (pinned, "pinned"), (forked, "forked from it"), (played, "short job"), (best, "best checkpoint"), (last, "would resume"),
    ):  # fmt: skip
        with pytest.raises(TransitionRefused, match=reason):
            checkpoint_do(user, row, "delete")
    assert checkpoints_prune(user, run, CheckpointsPruneBody(last=0, best=0)).deleted == []
    assert len(list((tmp_path / "runs" / run.pk / "checkpoints").glob("iteration-*"))) == 5


def test_the_driver_respects_pins_and_forks(run: Run, user: User, make: Make, tmp_path: Path) -> None:
    """Its own retention looks at the marks that are left on disk."""
    folder = tmp_path / "runs" / run.pk / "checkpoints"
    rows = [make(each) for each in (20, 40, 60)]
    checkpoint_do(user, rows[0], "pin")
    run_fork(user, rows[1])
    with writing(folder, 80, {}):
        pass
    assert [place.name for place in retain(folder, 1, ())] == ["iteration-000060"]
    checkpoint_do(user, rows[0], "unpin")
    assert [place.name for place in retain(folder, 1, ())] == ["iteration-000020"]


def test_the_last_and_the_best_are_kept(ended: Run, user: User, make: Make, tmp_path: Path) -> None:
    values = {20: 0.2, 40: 0.9, 60: "NaN", 80: 0.5, 100: 0.3}
    for iteration, value in values.items():
        make(iteration, metrics={"eval/success": value})
    pruned = checkpoints_prune(user, ended, CheckpointsPruneBody(last=1, best=2, dry=True))
    assert pruned == CheckpointsPruned(deleted=[60, 20], kept=[100, 80, 40], bytes=2000)
    assert len(on_disk(tmp_path, ended)) == 5
    assert checkpoints_prune(user, ended, CheckpointsPruneBody(last=1, best=2)) == pruned
    assert on_disk(tmp_path, ended) == ["iteration-000040", "iteration-000080", "iteration-000100"]


def test_only_editors(ended: Run, stranger: User, make: Make) -> None:
    row = make(20)
    for act in ("pin", "delete"):
        with pytest.raises(PermissionDenied):
            checkpoint_do(stranger, row, act)


def test_the_page(ended: Run, user: User, make: Make) -> None:
    row = make(20)
    make(40)
    client = Client()
    client.force_login(user)
    page = f"/runs/{ended.pk}/checkpoints/"
    assert client.post(f"{page}{row.pk}/pin/")["Location"] == page
    assert ">pinned<" in client.get(page).content.decode()
    client.post(f"{page}{row.pk}/delete/")
    assert "unpin it first" in client.get(page).content.decode()
    client.post(f"{page}{row.pk}/unpin/")
    client.post(f"{page}prune/", {"last": "1", "best": "0"})
    assert "Deleted 20" in client.get(page).content.decode()
    assert Checkpoint.objects.get(pk=row.pk).removed
    client.post(f"{page}prune/", {"last": "x", "best": "0"})
    assert "last" in client.get(page).content.decode()
