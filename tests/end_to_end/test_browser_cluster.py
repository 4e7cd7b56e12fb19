"""The cluster page and a project's pages in a real browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.conftest import Server, run_make
from tests.end_to_end.looks import look_at
from webapp.accounts.models import User

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def machine(transactional_db: None, static_root: Path) -> Iterator[Server]:
    """A server whose runs are processes of this machine."""
    running = Server(static_root, TROUPE_LAUNCHER="local")
    running.start()
    yield running
    running.rest()
    running.close()


def test_the_cluster_renews_itself(machine: Server, page: Page, ada: User) -> None:
    run_make(ada, "the one that runs", "running")
    page.goto(f"{machine.url}/cluster/")
    expect(page.locator("h1")).to_have_text("Cluster")
    expect(page.locator(".side [aria-current=page]")).to_have_text("Cluster")
    waiting = run_make(ada, "<img src=x onerror=alert(1)>")
    waiting.attempts.all().delete()
    row = page.locator("tr", has_text="<img src=x")
    expect(row).to_contain_text("1.30 CPU")
    expect(page.locator("main")).to_contain_text("a run acquires all of its devices at once")
    look_at(page, "cluster", [("page", f"{machine.url}/cluster/")])
