"""The audit log: every act of people leaves a line; page and API find it again."""

import pytest
from django.test import Client

from tests.webapp.api.conftest import caller
from tests.webapp.elements import texts_of
from webapp.accounts.audit import audit_note
from webapp.accounts.models import AuditEntry, Project, User
from webapp.accounts.services import member_remove, member_set
from webapp.runs.models import Run

API = "projects/lab/audit/"


@pytest.fixture
def lab(project: Project, user: User, stranger: User) -> Project:
    """Four entries: eve in and out, a stop by ada, something that Troupe did."""
    member_set(user, project, "eve", "editor")
    member_remove(user, project, stranger.pk)
    audit_note(user, project, "run.stop", "abcd2345")
    AuditEntry.objects.create(
        project=project, act="run.pause", target="<b>x</b>", details={"rule": "<i>nan</i>"}
    )
    return project


@pytest.mark.slow
def test_changes_of_members_are_noted(lab: Project) -> None:
    said = list(AuditEntry.objects.order_by("pk").values_list("user__username", "act", "target"))
    assert said[:2] == [("ada", "member.set", "eve"), ("ada", "member.remove", "eve")]
    assert AuditEntry.objects.get(act="member.set").details == {"level": "editor"}


@pytest.mark.parametrize(
    ("query", "acts"),
    [
        ("user=ada&act=member", ["member.remove", "member.set"]),
        ("act=run.", ["run.pause", "run.stop"]),
        ("target=ABCD", ["run.stop"]),
        ("since=2999-01-01", []),
        ("until=2999-01-01&limit=1", ["run.pause"]),
        ("since=2000-01-01T00:00:00Z&user=nobody", []),
    ],
)
def test_filters(lab: Project, user: User, query: str, acts: list[str]) -> None:
    answer = caller(user, "read")(f"{API}?{query}").json()
    assert [entry["act"] for entry in answer["results"]] == acts


def test_pages_follow_each_other(lab: Project, user: User) -> None:
    call = caller(user, "read")
    first = call(API, limit=3).json()
    second = call(API, limit=3, before=first["next"]).json()
    assert [len(first["results"]), len(second["results"]), second["next"]] == [3, 1, None]


@pytest.mark.parametrize(
    "query", ["since=yesterday", "until=2026-13-01", "before=x", "since=2026-01-01T00:00:00"]
)
def test_what_is_no_date_is_said(client: Client, lab: Project, user: User, query: str) -> None:
    assert caller(user, "read")(f"{API}?{query}").status_code == 400
    client.force_login(user)
    page = client.get(f"/account/projects/lab/audit/?{query}")
    assert page.status_code == 400 and 'role="alert"' in page.content.decode()


def test_the_page_shows_hostile_text_as_text(client: Client, lab: Project, user: User, run: Run) -> None:
    client.force_login(user)
    text = client.get("/account/projects/lab/audit/").content.decode()
    assert "&lt;i&gt;nan" in text and "&lt;b&gt;x" in text and "<i>nan" not in text
    assert 'href="/runs/abcd2345/"' in text and "Troupe" in text
    acts = texts_of(client.get("/account/projects/lab/audit/?act=member.set"), "td.mono")
    assert "run.stop" not in acts and "member.set" in acts


def test_projects_and_members_by_api(project: Project, user: User, stranger: User) -> None:
    call, members = caller(user, "admin"), "projects/lab/members/"
    assert call("projects/").json()["results"] == [{"slug": "lab", "name": "Lab", "level": "owner"}]
    assert call("projects/", {"name": "New one"}).json()["slug"] == "new-one"
    assert call(members, {"username": "eve", "level": "viewer"}).json()["level"] == "viewer"
    for wrong in ({"username": "nobody", "level": "viewer"}, {"username": "eve", "level": "king"}):
        assert call(members, wrong).status_code == 400
    assert caller(stranger, "admin")(members, {"username": "eve", "level": "owner"}).status_code == 403
    assert call(f"{members}eve/remove/", {}).json() == {"username": "eve"}
    assert call(f"{members}ada/remove/", {}).status_code == 400, "an owner stays"
