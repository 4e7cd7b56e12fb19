"""Who holds what, who waits for what: the page and what it draws from."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from webapp.accounts.models import Project, User
from webapp.cluster.services import cluster_read
from webapp.runs.models import Attempt, Run
from workers.launchers.launcher import Capacity, Node
from workers.launchers.registry import FakeLauncher

Another = Callable[..., Run]


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch) -> FakeLauncher:
    fake = FakeLauncher(devices=Capacity(2.0, 0.0, 2.0, 0.0, (Node("a", "one", 2.0, 0.0, 2.0, 0.0, True),)))
    monkeypatch.setattr("webapp.cluster.services.make_launcher", lambda kind: fake)
    return fake


@pytest.fixture
def another(run: Run) -> Another:
    def make(**fields: Any) -> Run:
        wanted: dict[str, Any] = {
            "project": run.project, "owner": run.owner, "name": "other", "config": run.config, "iterations": 9,
        }  # fmt: skip
        return Run.objects.create(**(wanted | fields))

    return make


def test_holders_come_first_then_the_queue_in_its_order(
    user: User, run: Run, launcher: FakeLauncher, another: Another
) -> None:
    holder, urgent = another(state="running"), another(priority=5)
    rows = cluster_read(user).runs
    assert [row.run for row in rows] == [holder.pk, urgent.pk, run.pk]
    assert [row.place for row in rows] == [None, 1, 2]
    assert {pool.name for pool in rows[0].pools} >= {"environments", "coordinator"}
    assert rows[0].cpus == pytest.approx(sum(pool.cpus for pool in rows[0].pools))


def test_what_limits_a_run_counts_those_before_it(
    user: User, run: Run, launcher: FakeLauncher, another: Another
) -> None:
    alone = cluster_read(user).runs[0]
    assert alone.limits == []
    another(state="running")
    [limit] = cluster_read(user).runs[1].limits
    assert (limit.resource, limit.wants, limit.never) == ("CPU cores", alone.cpus, False)
    assert limit.free == pytest.approx(2.0 - alone.cpus)
    assert limit.lacks == pytest.approx(2 * alone.cpus - 2.0)
    launcher.devices = Capacity(0.5, 0.0, 0.5, 0.0)
    assert cluster_read(user).runs[1].limits[0].never


def test_runs_of_others_show_their_devices_and_nothing_else(
    user: User, stranger: User, run: Run, launcher: FakeLauncher, another: Another
) -> None:
    theirs = Project.objects.create(slug="theirs", name="Theirs")
    another(project=theirs, owner=stranger, name="secret plan", state="running")
    row = cluster_read(user).runs[0]
    assert (row.run, row.name, row.owner, row.project, row.pools) == (None, "", None, None, [])
    assert row.cpus > 0


def test_runs_of_one_process_divide_its_devices(
    ada: Client, user: User, run: Run, launcher: FakeLauncher, another: Another
) -> None:
    alone = cluster_read(user).runs[0].cpus
    for number in range(3):
        member = another(state="running")
        Attempt.objects.create(run=member, number=1, submission_id=f"j{number}", shared_job="j0", shared_by=3)
    Attempt.objects.filter(run=member).update(state="ended")
    Run.objects.filter(pk=member.pk).update(state="finished")
    rows = cluster_read(user).runs
    assert [(row.cpus, row.shared_by) for row in rows] == [(alone / 2, 2), (alone / 2, 2), (alone, 1)]
    assert "process shared by 2 runs" in ada.get("/cluster/").content.decode()


def test_a_worker_that_no_node_can_hold(user: User, run: Run, launcher: FakeLauncher) -> None:
    small = tuple(Node(str(i), f"n{i}", 0.2, 0.0, 0.2, 0.0) for i in range(20))
    launcher.devices = Capacity(4.0, 0.0, 4.0, 0.0, small)
    [limit] = cluster_read(user).runs[0].limits
    assert (limit.resource, limit.total, limit.never) == ("CPU cores on one node", 0.2, True)
