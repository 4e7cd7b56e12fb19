"""API tokens: hashed, scoped, ended by time, by hand, with their person."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.utils import timezone

from tests.webapp.api.conftest import call_with, caller
from webapp.accounts.models import ApiToken, AuditEntry, Membership, Project, User
from webapp.accounts.permissions import can_edit
from webapp.accounts.selectors import project_tokens, tokens_list
from webapp.accounts.services import project_create
from webapp.accounts.tokens import (
    PERSONAL_SCOPES,
    launches_left,
    run_tokens_revoke,
    token_covers,
    token_create,
    token_find,
    token_revoke,
)
from webapp.jobs.models import Job
from webapp.runs.models import Run


def test_a_secret_finds_its_token_and_is_not_stored(user: User) -> None:
    token, secret = token_create(user, "laptop", ["read"])
    assert token_find(secret) == token
    stored = ApiToken.objects.values().get(pk=token.pk)
    assert secret not in str(stored)
    assert secret.startswith(stored["prefix"]) and len(stored["prefix"]) == 12
    assert len(secret) > 45


@pytest.mark.parametrize(
    "wrong", ["", "troupe_", "troupe_" + "x" * 43, "Bearer", "troupe_\ud800", "troupe_" + "x" * 10_000]
)
def test_nothing_else_finds_one(user: User, wrong: str) -> None:
    token_create(user, "laptop", ["read"])
    assert token_find(wrong) is None


def test_its_digest_is_no_secret(user: User) -> None:
    token, _ = token_create(user, "laptop", ["read"])
    assert token_find(token.digest) is None
    assert token_find("troupe_" + token.digest) is None


def test_an_expired_token_is_none(user: User) -> None:
    _, past = token_create(user, "old", ["read"], expires=timezone.now() - timedelta(seconds=1))
    _, future = token_create(user, "new", ["read"], expires=timezone.now() + timedelta(hours=1))
    assert token_find(past) is None
    assert token_find(future) is not None


def test_a_revoked_token_is_none_and_stays_so(user: User) -> None:
    token, secret = token_create(user, "laptop", ["read"])
    assert token_revoke(user, token.pk)
    assert token_find(secret) is None
    assert not token_revoke(user, token.pk)


def test_nobody_revokes_anothers_token(user: User, stranger: User) -> None:
    token, secret = token_create(user, "laptop", ["read"])
    assert not token_revoke(stranger, token.pk)
    assert token_find(secret) == token


def test_a_token_of_somebody_switched_off_is_none(user: User) -> None:
    _, secret = token_create(user, "laptop", ["read"])
    user.is_active = False
    user.save()
    assert token_find(secret) is None


@pytest.mark.parametrize("scopes", [[], ["everything"], ["read", "everything"]])
def test_unknown_or_no_scopes_are_refused(user: User, scopes: list[str]) -> None:
    with pytest.raises(ValidationError, match="read, launch, admin, ingest"):
        token_create(user, "laptop", scopes)


def test_last_use_is_noted_once_a_minute(user: User) -> None:
    token, secret = token_create(user, "laptop", ["read"])
    token_find(secret)
    first = ApiToken.objects.get(pk=token.pk).last_used_at
    assert first is not None
    token_find(secret)
    assert ApiToken.objects.get(pk=token.pk).last_used_at == first
    earlier = timezone.now() - timedelta(minutes=2)
    ApiToken.objects.filter(pk=token.pk).update(last_used_at=earlier)
    token_find(secret)
    assert ApiToken.objects.get(pk=token.pk).last_used_at > earlier


def test_tokens_of_runs_are_not_personal(user: User, run: Run) -> None:
    token, secret = token_create(user, "run", ["ingest"], run_id=run.pk)
    assert token.run == run
    assert list(tokens_list(user)) == []
    assert run_tokens_revoke(run.pk) == 1
    assert token_find(secret) is None


def test_owners_see_which_tokens_reach_their_project(
    ada: Client, project: Project, user: User, stranger: User
) -> None:
    mine = token_create(user, "mine", ["read"])[1]
    theirs = token_create(stranger, "<b>theirs", ["launch"])[1]
    path = "/api/v1/projects/lab/tokens/"

    def names(secret: str) -> list[str]:
        answer = ada.get(path, headers={"authorization": f"Bearer {secret}"})
        assert mine not in answer.content.decode() and theirs not in answer.content.decode()
        return [row["name"] for row in answer.json().get("results", [])]

    assert (names(mine), names(theirs)) == (["mine"], [])
    Membership.objects.create(project=project, user=stranger, level="viewer")
    assert (names(mine), names(theirs)) == (["<b>theirs", "mine"], ["<b>theirs"])
    page = ada.get("/account/projects/lab/tokens/").content.decode()
    assert "&lt;b&gt;theirs" in page and theirs not in page


def test_a_scope_includes_those_before_it(user: User) -> None:
    for place, scope in enumerate(PERSONAL_SCOPES):
        token, _ = token_create(user, "t", [scope])
        assert [token_covers(token, each) for each in PERSONAL_SCOPES] == [at <= place for at in range(3)]
    assert not any(token_covers(token_create(user, "t", ["ingest"])[0], each) for each in PERSONAL_SCOPES)


def test_a_token_of_a_project_reaches_no_other(client: Client, project: Project, user: User) -> None:
    other = project_create(user, "other")
    secret = token_create(user, "bound", ["admin"], project=project)[1]
    headers: dict[str, Any] = {"headers": {"authorization": f"Bearer {secret}"}}
    assert [row["slug"] for row in client.get("/api/v1/projects/", **headers).json()["results"]] == ["lab"]
    assert client.get("/api/v1/projects/lab/tokens/", **headers).json()["results"][0]["project"] == "lab"
    assert client.get(f"/api/v1/projects/{other.slug}/members/", **headers).status_code == 404
    made = client.post("/api/v1/projects/", {"name": "third"}, content_type="application/json", **headers)
    assert made.status_code == 403
    assert list(project_tokens(user, other)) == []
    assert can_edit(User.objects.get(pk=user.pk), other), "the user's own membership stays"


def test_a_token_of_a_project_is_made_on_the_page(ada: Client, project: Project) -> None:
    ada.post("/account/tokens/", {"name": "ci", "scope": "launch", "project": "lab", "days": "30"})
    token = ApiToken.objects.get()
    assert (token.project, token.scopes) == (project, ["launch", "read"])
    elsewhere = ada.post("/account/tokens/", {"name": "ci", "scope": "read", "project": "theirs"})
    assert elsewhere.status_code == 400 and ApiToken.objects.count() == 1


def test_a_request_learns_the_scopes_and_limits_of_its_token(ada: Client, user: User) -> None:
    secret = token_create(user, "bot", ["launch"], runs_per_day=3)[1]
    answer = Client().get("/api/v1/token/", headers={"authorization": f"Bearer {secret}"}).json()
    assert (answer["name"], answer["scopes"]) == ("bot", ["read", "launch"])
    assert (answer["runs_per_day"], answer["runs_left"]) == (3, 3)
    assert ada.get("/api/v1/token/").status_code == 404, "a session has no token"


def test_the_limit_counts_launches_resumes_and_jobs_of_24_hours(
    project: Project, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.scheduling.services.submit_soon", lambda run_id: None)
    token, secret = token_create(user, "bot", ["launch"], runs_per_day=2)
    headers: dict[str, Any] = {"headers": {"authorization": f"Bearer {secret}"}}

    def post(path: str, body: dict[str, Any]) -> Any:
        return Client().post(f"/api/v1/{path}", body, content_type="application/json", **headers)

    made = post("runs/", {"preset": "plan_path_duo"}).json()["id"]
    assert post(f"runs/{made}/stop/", {}).status_code == 200, "a stop is not counted"
    assert post(f"runs/{made}/resume/", {}).status_code == 200
    assert launches_left(token) == 0
    refused = post("runs/", {"preset": "plan_path_duo"})
    assert refused.status_code == 403 and "2 runs and jobs in 24 hours" in refused.json()["detail"]
    assert post(f"runs/{made}/stop/", {}).status_code == 200
    assert post(f"runs/{made}/resume/", {}).status_code == 403
    sweep = {"preset": "plan_path_duo", "seeds": [0, 1]}
    assert post("sweeps/", sweep).status_code == 403
    AuditEntry.objects.filter(act="run.launch").update(created_at=timezone.now() - timedelta(hours=25))
    assert post("sweeps/", sweep).status_code == 403, "one run is left, and the sweep has two"
    job = {"kind": "check", "preset": "plan_path_duo"}
    assert post("jobs/", job).status_code == 201
    assert post("jobs/", job).status_code == 403 == post("runs/", {"preset": "plan_path_duo"}).status_code
    assert Run.objects.count() == 1 == Job.objects.count()


def test_the_limit_is_set_on_the_page_and_of_one_token_only(
    ada: Client, project: Project, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.scheduling.services.submit_soon", lambda run_id: None)
    ada.post("/account/tokens/", {"name": "bot", "scope": "launch", "runs": "0"})
    assert ApiToken.objects.get().runs_per_day == 0
    for page in ("/account/tokens/", "/account/projects/lab/tokens/"):
        shown = ada.get(page).content.decode()
        assert '<td data-label="Runs a day">0</td>' in shown and "launch, read" in shown
    assert ada.post("/account/tokens/", {"name": "x", "scope": "read", "runs": "-1"}).status_code == 400
    other = token_create(user, "other", ["launch"])[1]
    body = {"preset": "plan_path_duo"}
    headers: dict[str, Any] = {"headers": {"authorization": f"Bearer {other}"}}
    launched = Client().post("/api/v1/runs/", body, content_type="application/json", **headers)
    assert launched.status_code == 201
    entry = AuditEntry.objects.get(act="run.launch")
    assert (entry.token, entry.details["token"]) == (ApiToken.objects.get(name="other"), "other")


class TestGrant:
    """Tokens that are created with a token."""

    def test_a_token_is_created_listed_and_revoked_once(self, user: User, project: Project) -> None:
        admin = caller(user, "admin")
        made = admin("tokens/", {"name": "laptop", "scope": "launch", "project": project.slug}).json()
        token = token_find(made["secret"])
        assert token is not None and token.scopes == ["launch", "read"] and token.project == project
        assert timedelta(364) < token.expires_at - timezone.now() < timedelta(366)  # type: ignore[operator]
        assert AuditEntry.objects.get(act="token.make").target == "laptop"
        listed = admin("tokens/").json()["results"]
        assert {row["id"] for row in listed} >= {made["id"]} and "secret" not in listed[0]
        assert admin(f"tokens/{made['id']}/revoke/", {}).json()["revoked_at"]
        assert token_find(made["secret"]) is None
        assert admin(f"tokens/{made['id']}/revoke/", {}).status_code == 404

    def test_a_token_creates_none_that_may_do_more(self, user: User, project: Project) -> None:
        other = project_create(user, "Other")
        end = timezone.now() + timedelta(days=2)
        limits: list[tuple[list[str], dict[str, Any]]] = [
            (["launch"], {}),
            (["admin"], {"runs_per_day": 1}),
            (["admin"], {"project": project, "expires": end}),
        ]
        answers = []
        for scopes, limit in limits:
            _, secret = token_create(user, "t", scopes, **limit)
            call = call_with(secret)
            answers.append(call("tokens/", {"name": "more", "scope": "admin", "days": 0}))
        assert [answer.status_code for answer in answers] == [403, 403, 201]
        made = answers[2].json()
        assert made["project"] == project.slug and ApiToken.objects.get(pk=made["id"]).expires_at == end
        assert call("tokens/", {"name": "n", "project": other.slug}).status_code == 404
