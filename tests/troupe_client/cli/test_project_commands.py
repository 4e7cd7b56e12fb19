"""troupe project list, members, audit against a real server."""

import json

import pytest

from tests.troupe_client.cli.conftest import Troupe
from webapp.accounts.models import User

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("connected")]


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


def test_invalid_arguments_are_refused(troupe: Troupe) -> None:
    assert "is not a date" in troupe("project", "audit", "lab", "--since", "yesterday").err
    assert "is not a project slug" in troupe("project", "audit", "a/b").err
    assert "there is no project 'other'; yours are: " in troupe("member", "list", "other").err.lower()
