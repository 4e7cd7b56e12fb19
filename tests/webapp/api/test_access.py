"""Who may call what."""

from typing import Any

import pytest
from django.test import Client

from tests.webapp.api.conftest import call_with, caller, episode
from webapp.accounts.models import Membership, Project, User
from webapp.accounts.tokens import token_create
from webapp.runs.models import Run

READ = [
    "runs/", "runs/{run}/", "runs/{run}/series/", "runs/{run}/episodes/", "runs/{run}/checkpoints/", "runs/{run}/logs/",
    "episodes/{episode}/", "presets/", "schema/run/", "cluster/", "/api/schema/",
]  # fmt: skip
ACTS = ["runs/{run}/stop/", "runs/{run}/pause/", "runs/{run}/resume/"]


@pytest.mark.django_db
def test_without_a_good_token_the_answer_names_the_header() -> None:
    for secret in ("", "nonsense", "troupe_" + "x" * 43, "troupe_" + "x" * 5000):
        answer = call_with(secret)("runs/")
        assert (answer.status_code, answer["WWW-Authenticate"]) == (401, "Bearer")
    assert "Authorization: Bearer TOKEN" in call_with("")("runs/").content.decode()


@pytest.fixture
def names(run: Run) -> dict[str, Any]:
    return {"run": run.pk, "episode": episode(run, "a").pk}


def test_another_persons_runs_are_not_listed(run: Run, stranger: User) -> None:
    assert caller(stranger, "read")("runs/").json()["results"] == []


def test_a_viewer_reads_and_changes_nothing(names: dict[str, Any], stranger: User, project: Project) -> None:
    Membership.objects.create(project=project, user=stranger, level=Membership.Level.VIEWER)
    call = caller(stranger, "launch")
    for path in READ:
        assert call(path.format(**names)).status_code == 200
    for path in ACTS:
        assert call(path.format(**names), {}).status_code == 403
    answer = call("runs/", {"preset": "plan_path_duo", "project": project.slug})
    assert answer.status_code == 403
    assert "editor" in answer.json()["detail"]
    assert call("runs/", {"preset": "plan_path_duo"}).status_code == 403
    assert Run.objects.count() == 1


def test_a_session_reads_and_needs_the_csrf_token_to_change(run: Run, user: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)
    assert client.get(f"/api/v1/runs/{run.pk}/").status_code == 200
    refused = client.post(f"/api/v1/runs/{run.pk}/stop/")
    assert refused.status_code == 403
    assert "CSRF" in refused.json()["detail"]
    assert Run.objects.get().state == "queued"
    page = client.get("/runs/")
    token = page.context["csrf_token"]
    headers = {"X-CSRFToken": str(token)}
    taken = client.post(f"/api/v1/runs/{run.pk}/stop/", content_type="application/json", headers=headers)
    assert (taken.status_code, taken.json()["state"]) == (200, "stopped")


def test_a_token_needs_no_csrf_token(run: Run, user: User) -> None:
    _, secret = token_create(user, "t", ["launch"])
    client = Client(enforce_csrf_checks=True, headers={"Authorization": f"Bearer {secret}"})
    assert client.post(f"/api/v1/runs/{run.pk}/stop/").status_code == 200


def test_the_reference_needs_a_login_and_runs_no_script_of_its_page(ada: Client) -> None:
    assert Client().get("/api/docs/")["Location"].startswith("/account/login/")
    page = ada.get("/api/docs/")
    assert page.status_code == 200
    text = page.content.decode()
    assert "<script>" not in text, "our content security policy blocks scripts in pages"
    assert "https://" not in text, "everything is served by ourselves"
    script = ada.get("/api/docs/?script=")
    assert "SwaggerUIBundle" in script.content.decode()
    assert ada.get("/api/schema/").status_code == 200


def test_an_unknown_address_answers_in_json_only_below_api(user: User) -> None:
    call = caller(user, "read")
    answer = call("nonesuch/")
    assert (answer.status_code, answer["Content-Type"]) == (404, "application/json")
    assert "/api/v1/nonesuch/" in answer.json()["detail"]
    page = call("/nonesuch/")
    assert (page.status_code, page["Content-Type"].split(";")[0]) == (404, "text/html")


def test_a_failure_answers_in_json_below_api_and_with_a_page_elsewhere(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: Any, **named: Any) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("webapp.site.views.exposition", broken)
    monkeypatch.setattr("webapp.experiments.api.gallery", broken)
    client = Client(
        raise_request_exception=False,
        headers={"Authorization": f"Bearer {token_create(user, 't', ['read'])[1]}"},
    )
    answer = client.get("/api/v1/presets/")
    assert (answer.status_code, answer["Content-Type"]) == (500, "application/json")
    assert "secret" not in answer.content.decode()
    assert client.get("/metrics")["Content-Type"].startswith("text/html")
