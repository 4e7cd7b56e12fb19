"""Who may call what."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from tests.webapp.api.conftest import call_with, caller, episode
from webapp.accounts.models import ApiToken, Membership, Project, User
from webapp.accounts.tokens import token_create, token_revoke
from webapp.runs.models import Run

READ = [
    "runs/", "runs/{run}/", "runs/{run}/series/", "runs/{run}/episodes/", "runs/{run}/checkpoints/", "runs/{run}/logs/",
    "episodes/{episode}/", "presets/", "schema/run/", "cluster/", "/api/schema/",
]  # fmt: skip
OF_ONE_RUN = [path for path in READ if "{" in path]
ACTS = ["runs/{run}/stop/", "runs/{run}/pause/", "runs/{run}/resume/"]


@pytest.fixture
def names(run: Run) -> dict[str, Any]:
    return {"run": run.pk, "episode": episode(run, "a").pk}


@pytest.mark.parametrize("path", READ)
def test_reading_needs_a_token_that_is_good(path: str, names: dict[str, Any], user: User) -> None:
    path = path.format(**names)
    answer = call_with("")(path)
    assert (answer.status_code, answer["WWW-Authenticate"]) == (401, "Bearer")
    assert "Authorization: Bearer TOKEN" in answer.content.decode()
    for secret in ("nonsense", "troupe_" + "x" * 43, "troupe_" + "x" * 5000, ""):
        assert Client(headers={"Authorization": f"Bearer {secret}"}).get(f"/api/v1/{path}").status_code in (
            401,
            404,
        )
    assert call_with("troupe_wrong")(path).status_code == 401
    assert caller(user, "read")(path).status_code == 200
    assert caller(user, "launch")(path).status_code == 200
    assert caller(user, "ingest")(path).status_code == 403


def test_revoked_expired_and_inactive_tokens_are_no_tokens(user: User) -> None:
    token, secret = token_create(user, "t", ["read"])
    assert call_with(secret)("runs/").status_code == 200
    token_revoke(user, token.pk)
    answer = call_with(secret)("runs/")
    assert answer.status_code == 401
    assert "revoked" in answer.json()["detail"]
    _, secret = token_create(user, "t", ["read"], expires=timezone.now() - timedelta(seconds=1))
    assert call_with(secret)("runs/").status_code == 401
    _, secret = token_create(user, "t", ["read"])
    User.objects.update(is_active=False)
    assert call_with(secret)("runs/").status_code == 401


@pytest.mark.parametrize("path", [*ACTS, "runs/"])
def test_changing_needs_the_launch_scope(path: str, names: dict[str, Any], user: User, run: Run) -> None:
    path = path.format(**names)
    body = {"preset": "plan_path_duo"}
    assert call_with("")(path, body).status_code == 401
    assert caller(user, "read")(path, body).status_code == 403
    assert caller(user, "ingest", run=run)(path, body).status_code == 403
    assert Run.objects.get().state == "queued"


@pytest.mark.parametrize("path", OF_ONE_RUN + ACTS)
def test_another_persons_run_is_not_there(path: str, names: dict[str, Any], stranger: User) -> None:
    call = caller(stranger, "launch", "read")
    answer = call(path.format(**names), {} if path in ACTS else None)
    assert answer.status_code == 404
    assert call(path.format(run="nonesuch", episode=10**9), {} if path in ACTS else None).status_code == 404


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


def test_secrets_are_nowhere_in_answers(run: Run, user: User) -> None:
    token, secret = token_create(user, "t", ["read"])
    text = call_with(secret)(f"runs/{run.pk}/").content.decode()
    assert secret not in text
    assert token.digest not in text
    assert ApiToken.objects.count() == 1


def test_the_reference_needs_a_login_and_runs_no_script_of_its_page(user: User, client: Client) -> None:
    assert client.get("/api/docs/")["Location"].startswith("/account/login/")
    client.force_login(user)
    page = client.get("/api/docs/")
    assert page.status_code == 200
    text = page.content.decode()
    assert "<script>" not in text, "our content security policy blocks scripts in pages"
    assert "https://" not in text, "everything is served by ourselves"
    script = client.get("/api/docs/?script=")
    assert "SwaggerUIBundle" in script.content.decode()
    assert client.get("/api/schema/").status_code == 200


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
