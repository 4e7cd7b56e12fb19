"""troupe share against a real server."""

import httpx
import pytest

from tests.troupe_client.cli.conftest import Troupe
from webapp.runs.models import Run

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("connected")]


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
