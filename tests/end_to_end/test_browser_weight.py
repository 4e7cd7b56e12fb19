"""What a page moves with a cold cache: requests and compressed bytes; static files stay in the browser."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.end_to_end.conftest import run_told, tell
from webapp.accounts.models import User
from webapp.runs.models import Run
from webapp.transcripts.models import Episode

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True), pytest.mark.extended]

MOST_REQUESTS = 12
CHARTS = 600_000
"""Bytes of a page with charts, most of them the chart library."""
OTHERS = 80_000


@dataclass
class Traffic:
    """Requests of one page: address and compressed size, with headers."""

    sizes: dict[str, float] = field(default_factory=dict)
    cached: set[str] = field(default_factory=set)
    addresses: dict[str, str] = field(default_factory=dict)

    def watch(self, page: Page) -> None:
        session = page.context.new_cdp_session(page)
        session.send("Network.enable")
        session.send("Network.clearBrowserCache")
        session.on("Network.requestWillBeSent", self._sent)
        session.on("Network.loadingFinished", self._finished)
        session.on("Network.requestServedFromCache", lambda event: self.cached.add(event["requestId"]))

    def _sent(self, event: dict[str, Any]) -> None:
        address = event["request"]["url"]
        if not address.startswith(("data:", "blob:")):
            self.addresses[event["requestId"]] = address

    def _finished(self, event: dict[str, Any]) -> None:
        if event["requestId"] in self.addresses and event["requestId"] not in self.cached:
            self.sizes[event["requestId"]] = event["encodedDataLength"]

    def report(self) -> list[str]:
        return [f"{size:>9.0f} {self.addresses[name]}" for name, size in self.sizes.items()]


@pytest.fixture
def run(ada: User) -> Run:
    made, story = run_told(ada, iterations=24, ago=30)
    tell(made, story.ending(24))
    return made


@pytest.mark.parametrize(
    ("address", "limit"),
    [
        ("/runs/{run}/", CHARTS),
        ("/runs/{run}/curves/", CHARTS),
        ("/runs/", OTHERS),
        ("/runs/{run}/transcripts/", OTHERS),
        ("/runs/{run}/episodes/{episode}/", OTHERS),
        ("/runs/{run}/episodes/{group}/tree/", OTHERS),
        ("/runs/{run}/timeline/", OTHERS),
        ("/runs/{run}/logs/", OTHERS),
        ("/runs/{run}/config/", OTHERS),
        ("/runs/{run}/checkpoints/", OTHERS),
        ("/experiments/new/?preset=plan_path_duo", OTHERS),
        ("/docs/", OTHERS),
    ],
)
def test_a_page_needs_few_requests_and_bytes(page: Page, run: Run, address: str, limit: int) -> None:
    episode = Episode.objects.filter(run=run).order_by("pk")[0].pk
    group = Episode.objects.filter(run=run, kind="train", failed=False).latest("pk").pk
    traffic = Traffic()
    traffic.watch(page)
    page.goto(address.format(run=run.pk, episode=episode, group=group), wait_until="networkidle")
    print(len(traffic.sizes), sum(traffic.sizes.values()), *traffic.report(), sep="\n")
    assert len(traffic.sizes) <= MOST_REQUESTS, traffic.report()
    assert sum(traffic.sizes.values()) <= limit, traffic.report()


def test_static_files_are_compressed_and_never_asked_for_again(page: Page, run: Run) -> None:
    with page.expect_response("**/bundles/run.*") as waiting:
        page.goto(f"/runs/{run.pk}/")
    headers = waiting.value.all_headers()
    assert headers["content-encoding"] in ("br", "gzip")
    assert "immutable" in headers["cache-control"]
