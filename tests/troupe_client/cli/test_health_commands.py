"""troupe finding and troupe channel against a real server."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from tests.troupe_client.cli.conftest import Troupe
from training_core.checkpoints import writing
from webapp.checkpoints.models import Checkpoint
from webapp.health.models import Finding
from webapp.runs.models import Run


@pytest.fixture
def finding(connected: str, run: Run) -> Finding:
    return Finding.objects.create(
        run=run, rule="kl_blow_up", key="policy/planner/kl", severity="critical", title="planner [bold]ran[/bold] away",
        first_step=3, last_step=9, evidence={"figures": [["KL", 4.0]], "series": ["policy/planner/kl"]},
    )  # fmt: skip


def test_findings_are_shown_until_dismissed(troupe: Troupe, run: Run, finding: Finding) -> None:
    result = troupe("finding", "list", run.pk)
    assert result.status == 0 and "planner [bold]ran[/bold] away  (steps 3 to 9)" in result.out
    assert "remedy: Lower the learning rate" in result.out
    assert json.loads(troupe("finding", "list", run.pk, "--json").out)[0]["figures"] == {"KL": 4.0}
    assert "dismissed" in troupe("finding", "dismiss", run.pk, str(finding.pk)).out
    assert "1 more, dismissed: add --all" in troupe("finding", "list", run.pk).out
    assert "dismissed" in troupe("finding", "list", run.pk, "--all").out
    assert "has no finding 99" in troupe("finding", "dismiss", run.pk, "99").err
    assert json.loads(troupe("finding", "reopen", run.pk, str(finding.pk), "--json").out)["state"] == "open"
    finding.state = "resolved"
    finding.save()
    assert "resolved, was critical" in troupe("finding", "list", run.pk).out, "it mattered"
    assert "1 more" in troupe("finding", "list", run.pk, "--open").out
    assert "kl_blow_up: no value yet; needs 5 iterations" in troupe("finding", "rules", run.pk).out


def test_channels(troupe: Troupe, connected: str) -> None:
    made = troupe(
        "channel", "add", "lab", "hook", "--address", "json://ada:hush-hush@localhost:9/x", "--json"
    )
    assert made.status == 0
    number = str(json.loads(made.out)["id"])
    result = troupe("channel", "list", "lab")
    assert "hook  json" in result.out and "hush-hush" not in result.out + made.out
    tried = troupe("channel", "test", "lab", number)
    assert tried.status == 1 and "was not sent" in tried.out, "it is inside the network"
    assert "removed" in troupe("channel", "remove", "lab", number).out
    assert "No channels yet" in troupe("channel", "list", "lab").out


def test_fork_finding(
    troupe: Troupe, run: Run, finding: Finding, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path
) -> None:
    monkeypatch.setattr("webapp.scheduling.services.submit_soon", lambda run_id: None)
    settings.TROUPE_HOME = tmp_path
    path = "checkpoints/iteration-000002"
    with writing(tmp_path / "runs" / run.pk / "checkpoints", 2, {}) as draft:
        (draft / "planner").mkdir()
    Checkpoint.objects.create(
        run=run, attempt=1, cursor=1, iteration=2, path=path, size=5, time=timezone.now()
    )
    result = troupe("finding", "fork", run.pk, str(finding.pk), "run.seed=4", "--json")
    assert result.status == 0, result.err
    fork = Run.objects.get(pk=json.loads(result.out)["id"])
    assert (fork.parent, fork.iteration, fork.config["run"]["seed"]) == (run, 2, 4)
    assert f"fork: {fork.pk}" in troupe("finding", "list", run.pk).out
