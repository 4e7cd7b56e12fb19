"""Projects and what belongs to them, by command against a real server: members, quotas, webhooks, links, reports."""

import json
from pathlib import Path

import httpx
import pytest

from tests.troupe_client.cli.conftest import Troupe
from webapp.accounts.models import User
from webapp.reports.models import Report
from webapp.runs.models import Run

pytestmark = pytest.mark.usefixtures("connected")


def test_membership_changes_are_in_the_audit_log(troupe: Troupe) -> None:
    User.objects.create_user("eve")
    assert troupe("project", "list").out.split()[-3:] == ["lab", "Lab", "owner"]
    assert troupe("project", "create", "[bold]Second[/bold]").out.startswith(
        "boldsecondbold  [bold]Second[/bold]"
    )
    assert "eve  editor" in troupe("member", "set", "lab", "eve", "editor").out
    assert troupe("member", "list", "lab").out.split()[-2:] == ["eve", "editor"]
    assert "eve  removed" in troupe("member", "remove", "lab", "eve").out
    tokens = troupe("project", "tokens", "lab").out
    assert all(word in tokens for word in ("ada", "cli", "admin, launch, read"))
    result = troupe("project", "audit", "lab", "--act", "member")
    assert "level=editor" in result.out and "member.set" in result.out and "member.remove" in result.out
    assert [
        row["act"] for row in json.loads(troupe("project", "audit", "lab", "--limit", "1", "--json").out)
    ] == ["member.remove"]


def test_quotas_are_set_and_shown(troupe: Troupe) -> None:
    assert "runs       0 no limit" in troupe("project", "quota", "lab").out
    result = troupe("project", "quota", "lab", "runs=2", "gigabytes=1.5").out
    assert "runs       0 of 2" in result and "of 1.5" in result
    assert (
        json.loads(troupe("project", "quota", "lab", "runs=none", "--json").out)[0]["limits"]["runs"] is None
    )


def test_a_webhook_is_made_tried_and_removed(troupe: Troupe) -> None:
    made = troupe("webhook", "add", "lab", "ci", "https://ci.example.org/x", "--event", "run.failed").out
    number = made.split()[0]
    assert "ci  https://ci.example.org  " in made
    listed = troupe("webhook", "list", "lab").out
    assert "run.failed" in listed and made.split()[-1] not in listed
    ping = troupe("webhook", "ping", "lab", number).out
    assert "ping  waiting" in ping
    assert troupe("webhook", "deliveries", "lab", number).out.splitlines()[1].split() == ping.split()
    assert "waiting" in troupe("webhook", "redeliver", "lab", number, ping.split()[0]).out
    assert "enabled" not in troupe("webhook", "disable", "lab", number).out
    assert "enabled" in troupe("webhook", "enable", "lab", number).out
    assert "remove" in troupe("webhook", "remove", "lab", number).out
    assert "No webhooks." in troupe("webhook", "list", "lab").out


def test_a_link_is_made_listed_and_ended(troupe: Troupe, run: Run) -> None:
    link = troupe("share", "create", run.pk, "--title", "for the review").out.strip()
    assert link.startswith("http") and "/shared/" in link
    listed = troupe("share", "list", "lab").out
    assert run.pk in listed and "works" in listed and "for the review" in listed
    with httpx.Client(timeout=60, follow_redirects=True, trust_env=False) as browser:
        assert "read-only" in browser.get(link).text
        assert "revoked" in troupe("share", "revoke", "lab", listed.splitlines()[1].split()[0]).out
        assert browser.get(link).status_code == 410


def test_several_runs_are_a_comparison(troupe: Troupe, run: Run) -> None:
    other = Run.objects.create(
        project=run.project, owner=run.owner, name="b", config=run.config, iterations=1
    )
    assert "/shared/" in troupe("share", "create", run.pk, other.pk, "--days", "0").out
    assert f"comparison  runs={run.pk},{other.pk}  yes " in troupe("share", "list", "lab").out
    assert troupe("share", "create", run.pk, "nothere").status == 1


def test_commands_of_a_whole_report(troupe: Troupe, tmp_path: Path) -> None:
    assert "No reports yet" in troupe("report", "list").out
    text = tmp_path / "notes.md"
    text.write_text("first \x1b[2J\n")
    made = json.loads(troupe("report", "create", str(text), "--title", "T [b]x[/b]", "--json").out)
    number = str(made["id"])
    assert "T [b]x[/b]" in troupe("report", "list").out
    text.write_text("second\n")
    assert "saved as version 2" in troupe("report", "edit", number, str(text)).out
    assert troupe("report", "show", number).out == "second\n\n"
    assert "first \ufffd[2J" in troupe("report", "show", number, "--version", "1").out
    refused = troupe("report", "edit", number, str(text), "--base", "1", "--title", "late")
    assert refused.status == 1 and "stored as version 3" in refused.err
    assert "conflict" in troupe("report", "versions", number).out
    assert "restored" in troupe("report", "restore", number, "1").out
    assert Report.objects.get().text.startswith("first")
    page = tmp_path / "out.html"
    assert troupe("report", "export", number, "-o", str(page)).status == 0
    assert "<!doctype html>" in page.read_text()
    assert "/shared/" in troupe("report", "share", number, "--days", "2").out
    assert "deleted" in troupe("report", "delete", number).out
    assert troupe("report", "show", number).status == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("project audit lab --since yesterday", "is not a date"),
        ("project audit a/b", "is not a project slug"),
        ("channel list a/b", "is not a project slug"),
        ("member list other", "there is no project 'other'; yours are: "),
        ("project quota lab runs", "write name=value"),
        ("project quota lab runs=many", "is not a number"),
        ("project quota lab runs=1.5", ""),
        ("webhook add lab ci ftp://a", "give an address"),
        ("channel test lab 99", ""),
    ],
)
def test_invalid_words_are_refused(troupe: Troupe, words: str, message: str) -> None:
    result = troupe(*words.split())
    assert result.status == 1 and message in result.err.lower()
