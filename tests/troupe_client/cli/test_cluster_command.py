"""troupe cluster show against a real server."""

import json

import pytest

from tests.troupe_client.cli.conftest import Troupe
from webapp.runs.models import Run
from workers.launchers.launcher import Capacity
from workers.launchers.registry import FakeLauncher

pytestmark = pytest.mark.django_db(transaction=True)


def test_cluster_shows_allocations_and_missing_resources(
    troupe: Troupe, connected: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeLauncher(devices=Capacity(0.5, 0.0, 0.5, 0.0))
    monkeypatch.setattr("webapp.cluster.services.make_launcher", lambda kind: fake)
    result = troupe("cluster", "show")
    assert result.status == 0 and run.pk in result.out
    assert "first [bold]try[/bold]" in result.out and "the cluster has 0.5" in result.out
    assert json.loads(troupe("cluster", "show", "--json").out)["runs"][0]["place"] == 1
    fake.reachable = False
    assert "The cluster does not answer" in troupe("cluster", "show").out
