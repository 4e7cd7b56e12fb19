"""troupe report against a real server."""

import json
from pathlib import Path

import pytest

from tests.troupe_client.cli.conftest import Troupe
from webapp.reports.models import Report

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("connected")]


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
