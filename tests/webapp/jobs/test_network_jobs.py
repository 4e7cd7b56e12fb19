"""Short jobs of small networks on the web side: what may be asked for, what is refused with what to do instead, what pages offer."""

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from tests.webapp.elements import elements, text_of, texts_of
from training_core.config.files import load_config
from training_core.errors import ConfigError
from troupe_client.documents.jobs import JobBody
from webapp.accounts.models import Project, User
from webapp.checkpoints.models import Checkpoint
from webapp.jobs.models import Job
from webapp.jobs.services import job_folder, jobs_follow, jobs_submit
from webapp.jobs.starting import Subject, job_create, job_start
from webapp.runs.models import Run
from workers.job import main
from workers.launchers.registry import FakeLauncher

SMALL = {"run.iterations": 2, "rollout.environments": 2, "rollout.steps": 25}


def tag_run(project: Project, user: User, **overrides: Any) -> Run:
    config = load_config("tag_mappo", SMALL | overrides)
    fields = {"project": project, "owner": user, "config": config.model_dump(mode="json")}
    return Run.objects.create(name="chase", preset="tag_mappo", iterations=2, **fields)


@pytest.fixture
def run(project: Project, user: User) -> Run:
    return tag_run(project, user)


def kept(run: Run) -> Checkpoint:
    return Checkpoint.objects.create(
        run=run, attempt=1, cursor=1, iteration=2, path="checkpoints/iteration-000002", size=1, time=timezone.now(),
    )  # fmt: skip


def played(job: Job) -> Job:
    """The job as it is when its process, which runs here, has ended."""
    jobs_submit()
    assert main([str(job_folder(job).root), "--home", str(job_folder(job).root.parent)]) == 0
    jobs_follow()
    job.refresh_from_db()
    return job


def test_the_form_requests_a_dry_run_that_shows_shapes_and_speed(
    project: Project, ada: Client, launcher: FakeLauncher
) -> None:
    form = ada.get("/experiments/new/?preset=tag_mappo")
    assert [each for each in elements(form, "button") if each.text == "Dry run" and "disabled" not in each]
    fields = {path: str(value) for path, value in SMALL.items()}
    ada.post("/jobs/start/dry_run/", {"preset": "tag_mappo", "project": "lab", **fields})
    job = played(Job.objects.get())
    assert job.state == "finished" and job.result["environment_steps"] == 2 * 25
    page = ada.get(f"/jobs/{job.pk}/")
    for words in ("14 numbers", "5 choices", "environment steps per second"):
        assert words in text_of(page)
    assert "steps" in texts_of(page, "dt") and "success" not in texts_of(page, "dt")
    assert elements(page, "#job-boards")


def test_an_evaluation_is_asked_for_by_rest_and_shown(
    api: APIClient, run: Run, ada: Client, launcher: FakeLauncher
) -> None:
    body = {"kind": "evaluate", "run": run.pk, "checkpoint": "base", "overrides": {"run.seed": 3}}
    made = api.post(
        "/api/v1/jobs/", body | {"parameters": {"episodes": 4, "kind": "eval_sampled"}}, format="json"
    )
    assert made.status_code == 201, made.json()
    played(Job.objects.get())
    found = api.get(f"/api/v1/jobs/{made.json()['id']}/").json()
    assert (found["state"], found["result"]["episodes"], len(found["episodes"])) == ("finished", 4, 2)
    assert "standard deviation over episodes" in ada.get(f"/jobs/{found['id']}/").content.decode()


def test_a_match_shows_what_each_role_earned(
    user: User, project: Project, run: Run, ada: Client, launcher: FakeLauncher
) -> None:
    one = kept(run)
    job = job_create(user, project, "match", Subject(run.config, run, one, one), {"episodes": 2})
    jobs_submit()
    line = {"seats": {"adversaries": "a", "good": "b"}, "return": 7.5, "length": 25.0}
    job_folder(job).write(
        "result", {"episodes": 2, "seatings": [line | {"rewards": {"adversaries": 7.5, "good": -40.25}}]}
    )
    jobs_follow()
    page = ada.get(f"/jobs/{job.pk}/").content.decode()
    assert "adversaries earned" in page and "−40.25" in page.replace("-40.25", "−40.25")


def test_networks_of_two_kinds_do_not_meet(
    user: User, project: Project, run: Run, launcher: FakeLauncher
) -> None:
    other = tag_run(project, user, **{"policies.good.network.hidden_dim": 32})
    kept(run), kept(other)
    with pytest.raises(ConfigError, match="different networks"):
        job_start(user, JobBody(kind="match", run=run.pk, other_run=other.pk))


@pytest.mark.parametrize(
    ("kind", "parameters", "instead"),
    [
        ("talk", {"roles": ["good"]}, "troupe checkpoint evaluate RUN best"),
        ("evaluate", {"swapped": True}, "troupe checkpoint match"),
        ("evaluate", {"first": 8}, "run.seed=1"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_to_do_instead(
    user: User, project: Project, run: Run, launcher: FakeLauncher, kind: str, parameters: Any, instead: str
) -> None:
    with pytest.raises(ConfigError, match=instead):
        job_create(user, project, kind, Subject(run.config, run, kept(run)), parameters)
    assert not Job.objects.exists()


def test_networks_have_no_base_model_to_prepare(user: User, project: Project, run: Run) -> None:
    with pytest.raises(ConfigError, match="no base model"):
        job_create(user, project, "prepare", Subject(run.config))


def test_one_gpu_is_asked_for_where_the_run_uses_one(
    user: User, project: Project, launcher: FakeLauncher
) -> None:
    run = tag_run(project, user, **{"resources.gpus": 2.0})
    job_create(user, project, "evaluate", Subject(run.config, run))
    jobs_submit()
    assert [launch.gpus for launch in launcher.short] == [1.0]
