"""Short jobs from a terminal."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.troupe_client.cli.conftest import Troupe
from webapp.jobs.models import Job
from webapp.jobs.services import job_folder, jobs_follow, jobs_submit
from webapp.runs.models import Run
from workers.launchers.registry import FakeLauncher


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
    assert (
        "3 episodes: success 0.250 (0.100 to 0.600), return (shaped) 1.500"
        in troupe("job", "show", job.pk).out
    )
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


def test_a_check_prints_a_table_and_launches_nothing(
    troupe: Troupe, connected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = [
        {"name": "environment", "state": "passed", "text": "It was constructed.", "remedy": ""},
        {"name": "sandbox", "state": "failed", "text": "No sandbox is available.", "remedy": "Install it."},
        {"name": "weights", "state": "unknown", "text": "They are made later.", "remedy": ""},
    ]

    def end(results: list[dict[str, str]]) -> None:
        def sleep(seconds: float) -> None:
            job = Job.objects.latest("created_at")
            jobs_submit()
            failed = any(each["state"] == "failed" for each in results)
            job_folder(job).write("result", {"checks": results, "failed": failed})
            jobs_follow()

        monkeypatch.setattr("troupe_client.cli.topics.jobs.time.sleep", sleep)

    end(checks)
    done = troupe("launch", "plan_path_duo", "run.seed=4", "--check")
    assert done.status == 1, done.err
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert "failed sandbox No sandbox is available. Install it." in lines
    assert "not known weights They are made later." in lines
    assert Job.objects.get().config["run"]["seed"] == 4 and not Run.objects.exists()
    end(checks[:1])
    done = troupe("launch", "plan_path_duo", "--check", "--json")
    assert done.status == 0 and json.loads(done.out)["checks"] == checks[:1]
    assert "omit --watch" in troupe("launch", "plan_path_duo", "--check", "--watch").err
    assert "add --check" in troupe("run", "plan_path_duo", "--json").err


def test_a_launch_states_errors_of_and_between_fields(troupe: Troupe, connected: str) -> None:
    done = troupe("launch", "plan_path_duo", "run.seed=many", "rollout.group_size=1", "evaluation.probes=300")
    assert done.status == 1
    assert [line.partition(":")[0] for line in done.err.splitlines()] == [
        "run.seed",
        "rollout.group_size",
        "evaluation.probes",
    ]
