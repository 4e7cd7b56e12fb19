"""The check next to the form: its states, and what makes it stale."""

from typing import Any

import pytest
from django.test import Client

from tests.webapp.elements import elements
from tests.webapp.pages.test_experiment import posted
from webapp.accounts.models import Project, User
from webapp.jobs.models import Job
from webapp.jobs.services import job_folder, jobs_follow, jobs_submit
from workers.launchers.launcher import Capacity, Node
from workers.launchers.registry import FakeLauncher

CHECK = "/experiments/check/"
POLLS = 'hx-sync="#preview:drop"'
PASSED = {"name": "environment", "state": "passed", "text": "It was constructed.", "remedy": ""}
UNKNOWN = {"name": "weights of tiny", "state": "unknown", "text": "It is made later.", "remedy": ""}
FAILED = {"name": "sandbox", "state": "failed", "text": "<b>None</b> is there.", "remedy": "Install it."}


@pytest.fixture
def form(client: Client, user: User, project: Project, launcher: FakeLauncher) -> dict[str, str]:
    client.force_login(user)
    return posted(client)


def panel(page: Any) -> tuple[str, str]:
    """Class and text of the panel that says whether the form is ready."""
    (found,) = elements(page, "#ready")
    return found["class"], found.text


def ended(job: Job, *checks: dict[str, str]) -> None:
    jobs_submit()
    result = {"checks": list(checks), "failed": any(each["state"] == "failed" for each in checks)}
    job_folder(job).write("result", result)
    jobs_follow()


def test_a_form_without_a_check_is_amber(client: Client, form: dict[str, str]) -> None:
    level, text = panel(client.post(CHECK, form))
    assert level == "notice warn" and "Not checked: models, environment, code and devices." in text
    assert panel(client.get("/experiments/new/"))[0] == "notice warn"
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("checks", "level", "words"),
    [
        ([PASSED], "notice good", "Everything below was checked on the cluster."),
        ([PASSED, UNKNOWN], "notice warn", "Not checked: weights of tiny."),
        ([FAILED, PASSED, UNKNOWN], "notice bad", "1 check failed"),
    ],
)
def test_the_panel_has_the_colour_of_the_checks(
    client: Client, form: dict[str, str], checks: list[dict[str, str]], level: str, words: str
) -> None:
    page = client.post(f"{CHECK}?start=1", form)
    job = Job.objects.get()
    assert panel(page)[0] == "notice warn" and "waiting in the queue" in panel(page)[1]
    assert POLLS in page.content.decode()
    ended(job, *checks)
    page = client.post(CHECK, form | {"check": job.pk})
    assert panel(page)[0] == level and words in panel(page)[1]
    assert [each["data-state"] for each in elements(page, ".checks li")] == [each["state"] for each in checks]
    assert "<b>None" not in page.content.decode()
    assert POLLS not in page.content.decode(), "it is over"


def test_a_changed_field_makes_the_check_stale(client: Client, form: dict[str, str]) -> None:
    client.post(f"{CHECK}?start=1", form)
    job = Job.objects.get()
    ended(job, PASSED)
    form |= {"check": job.pk}
    assert panel(client.post(CHECK, form | {"run.name": "another name"}))[0] == "notice good"
    level, text = panel(client.post(CHECK, form | {"rollout.tasks": "40"}))
    assert level == "notice warn" and "fields have changed since the last check" in text
    assert panel(client.post(CHECK, form))[0] == "notice good", "the checked values are back"
    assert "1 error to fix" in client.post(CHECK, form | {"rollout.tasks": "many"}).content.decode()


def test_a_second_check_cancels_the_first(client: Client, form: dict[str, str]) -> None:
    client.post(f"{CHECK}?start=1", form)
    first = Job.objects.get()
    client.post(f"{CHECK}?start=1", form | {"check": first.pk, "rollout.tasks": "40"})
    first.refresh_from_db()
    second = Job.objects.exclude(pk=first.pk).get()
    assert (first.state, second.state, second.config["rollout"]["tasks"]) == ("cancelled", "queued", 40)
    level, text = panel(client.post(CHECK, form | {"check": first.pk}))
    assert level == "notice warn" and "Not checked" in text


def test_the_address_leads_to_the_last_check_again(client: Client, form: dict[str, str]) -> None:
    address = client.post(f"{CHECK}?start=1", form)["HX-Replace-Url"]
    job = Job.objects.get()
    assert f"check={job.pk}" in address
    page = client.get(address)
    (kept,) = elements(page, "#preview input[name=check]")
    assert kept["value"] == job.pk and "The last check is being read." in panel(page)[1]
    assert [each["hx-post"] for each in elements(page, "#preview [hx-trigger=load]")] == [CHECK]
    assert job.pk in client.post(CHECK, form | {"check": job.pk})["HX-Replace-Url"]
    assert "check=" not in client.post(CHECK, form | {"check": "none"})["HX-Replace-Url"]


def test_an_error_or_an_edit_of_the_team_keeps_the_check(client: Client, form: dict[str, str]) -> None:
    client.post(f"{CHECK}?start=1", form)
    form |= {"check": Job.objects.get().pk}
    for page in (
        client.post(CHECK, form | {"run.seed": "x"}),
        client.post("/experiments/edit/", form | {"act": "role-add", "role_name": "judge"}),
        client.post("/experiments/new/", form | {"run.seed": "x"}),
    ):
        assert [each["value"] for each in elements(page, "input[name=check]")] == [form["check"]]


def test_a_refused_check_keeps_the_last_one(client: Client, form: dict[str, str]) -> None:
    client.post(f"{CHECK}?start=1", form)
    job = Job.objects.get()
    ended(job, PASSED)
    form |= {"check": job.pk, "policies.planner.model": "artifact:missing:1"}
    page = client.post(f"{CHECK}?start=1", form)
    assert "no artifact" in page.content.decode() and Job.objects.count() == 1
    assert "fields have changed since the last check" in panel(page)[1]
    assert f"check={job.pk}" in page["HX-Replace-Url"]
    assert [each["value"] for each in elements(page, "input[name=check]")] == [job.pk]


def test_no_check_starts_for_a_form_with_errors(client: Client, form: dict[str, str]) -> None:
    page = client.post(f"{CHECK}?start=1", form | {"rollout.group_size": "1", "run.seed": "x"})
    assert "2 errors to fix" in page.content.decode() and not Job.objects.exists()


def test_checks_of_others_are_not_shown(client: Client, form: dict[str, str], stranger: User) -> None:
    client.post(f"{CHECK}?start=1", form)
    job = Job.objects.get()
    ended(job, FAILED)
    client.force_login(stranger)
    assert "sandbox" not in client.post(CHECK, form | {"check": job.pk}).content.decode()


def test_the_job_has_the_clusters_devices_and_requests_none(
    client: Client, form: dict[str, str], launcher: FakeLauncher
) -> None:
    node = Node("n", "host", 4.0, 2.0, 4.0, 2.0, memory=10**9, gpu_memory=10**10)
    launcher.devices = Capacity(4.0, 2.0, 4.0, 2.0, (node,))
    client.post(f"{CHECK}?start=1", form | {"policies.planner.devices.rollout_gpus": "1"})
    jobs_submit()
    request = job_folder(Job.objects.get()).read("request") or {}
    assert request["parameters"]["cluster"] == {"gpus": 2.0, "nodes": [{"main": 10**9, "gpu": 10**10}]}
    assert launcher.short[0].gpus == 0.0
    page = client.get(f"/jobs/{Job.objects.get().pk}/")
    assert "Check of" in page.content.decode()
