"""The cluster page and a project's pages in a real browser."""

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.conftest import Server, run_make
from tests.end_to_end.looks import violations
from webapp.accounts.models import User

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
SHOTS = os.environ.get("TROUPE_SHOTS", "")


@pytest.fixture
def machine(transactional_db: None, static_root: Path) -> Iterator[Server]:
    """A server whose runs are processes of this machine."""
    running = Server(static_root, TROUPE_LAUNCHER="local")
    running.start()
    yield running
    running.rest()
    running.close()


def check(page: Page, address: str) -> list[str]:
    """Faults at both widths, in both schemes."""
    faults = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        for width, height in ((1440, 900), (390, 844)):
            page.set_viewport_size({"width": width, "height": height})
            page.goto(address)
            wide = page.evaluate("document.documentElement.scrollWidth")
            if wide > width:
                faults.append(f"{address} is {wide} px wide at {width}")
            if SHOTS:
                path = urlsplit(address).path
                name = f"{path.strip('/').replace('/', '-')}-{width}-{scheme}.png"
                page.screenshot(path=str(Path(SHOTS) / name), full_page=True)
        faults += [f"{address}: {rule}: {elements}" for rule, elements in violations(page)]
    return faults


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
    assert not check(page, f"{machine.url}/cluster/")
