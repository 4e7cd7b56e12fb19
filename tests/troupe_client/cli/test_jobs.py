"""Short jobs from a terminal."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.troupe_client.cli.conftest import Troupe
from webapp.jobs.models import Job
from webapp.jobs.services import job_folder, jobs_follow, jobs_submit
from webapp.runs.models import Run
from workers.launchers.fake import FakeLauncher


@pytest.fixture(autouse=True)
def launcher(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeLauncher:
    settings.TROUPE_HOME = tmp_path
    fake = FakeLauncher()
    monkeypatch.setattr("webapp.jobs.services.make_launcher", lambda kind: fake)
    return fake


def test_a_job_from_start_to_end(troupe: Troupe, connected: str, run: Run) -> None:
    made = troupe(
        "checkpoint", "evaluate", run.pk, "base", "run.seed=4", "--episodes", "3", "--no-wait", "--json"
    )
    assert made.status == 0, made.err
    job = Job.objects.get()
    assert json.loads(made.out)["id"] == job.pk
    assert (job.parameters["episodes"], job.config["run"]["seed"], job.checkpoint) == (3, 4, None)
    jobs_submit()
    job_folder(job).write(
        "result", {"success": 0.25, "success_interval": [0.1, 0.6], "return": 1.5, "episodes": 3}
    )
    jobs_follow()
    assert "3 episodes: success 0.250 (0.100 to 0.600), return 1.500" in troupe("job", "show", job.pk).out
    assert "0.250" in troupe("job", "list").out
    assert troupe("experiment", "dry-run", "plan_path_duo", "--no-wait").status == 0
    second = Job.objects.exclude(pk=job.pk).get()
    assert "cancelled" in troupe("job", "cancel", second.pk).out


def test_an_evaluation_with_swapped_policies(troupe: Troupe, connected: str, run: Run) -> None:
    assert troupe("checkpoint", "swap", run.pk, "base", "--no-wait").status == 0
    assert Job.objects.get().parameters["swapped"] is True


def test_invalid_jobs_are_refused(troupe: Troupe, connected: str, run: Run) -> None:
    assert "has no checkpoint" in troupe("checkpoint", "evaluate", run.pk, "--no-wait").err
    assert "--as ROLE" in troupe("checkpoint", "talk", run.pk).err
    assert "there is no role x" in troupe("checkpoint", "talk", run.pk, "base", "--as", "x").err
    assert troupe("checkpoint", "match", f"{run.pk}:1", f"{run.pk}:2", "--no-wait").status != 0
    assert "is not a job id" in troupe("job", "show", "../x").err
