"""troupe provenance against a real server."""

import json

import pytest

from tests.troupe_client.cli.conftest import Troupe
from tests.webapp.provenance.test_provenance import COMMIT, facts
from webapp.provenance.services import provenance_read, provenance_store
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_record_is_printed_and_its_patch(troupe: Troupe, run: Run, connected: str) -> None:
    assert "No provenance yet" in troupe("provenance", run.pk).out
    provenance_store(
        run, 0, provenance_read(facts(command="troupe launch [bold]x[/bold]") | {"via": "command line"})
    )
    data = [{"field": "environment.path", "path": "tasks.jsonl", "bytes": 9, "sha256": "e" * 64}]
    provenance_store(run, 1, provenance_read(facts(diff="", data=data, installed={"torch": "2.13.0"})))
    out = troupe("provenance", run.pk).out
    for part in ("troupe launch [bold]x[/bold]", "box, Linux, EPYC, Python 3.11", COMMIT, "1 changed files",
                 "tasks.jsonl sha256 eeeeeeeeeeee", "torch 2.13.0", "attempt 1"):  # fmt: skip
        assert part in out
    assert troupe("provenance", run.pk, "--diff").out == "+speed = 2 <b>\n"
    assert json.loads(troupe("provenance", run.pk, "--json").out)["launch"]["attempt"] == 0
    assert "no uncommitted changes" in troupe("provenance", run.pk, "--diff", "--attempt", "1").err
    assert "attempts with one: 1" in troupe("provenance", run.pk, "--attempt", "7").err
    assert troupe("provenance", run.pk, "--diff", "--json").status == 1
