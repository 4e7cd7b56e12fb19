"""The store of series in the browser, with answers of the server that are late."""

import pytest
from playwright.sync_api import Page, Route

from tests.end_to_end.conftest import run_make, tell
from tests.end_to_end.seed import Story, encoded
from webapp.accounts.models import User

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_points_that_arrive_during_a_read_are_kept(page: Page, ada: User) -> None:
    run = run_make(ada)
    story = Story(run.pk)
    tell(run, encoded(story.opening()))
    tell(run, encoded(story.iterations(0, 3)))
    page.goto("/reports/")

    def late(route: Route) -> None:
        answer = route.fetch()
        page.evaluate("store.add({'train/return': [[4, 0.5, 1000, 1]]})")
        route.fulfill(response=answer)

    page.evaluate(
        """async run => {
          const { SeriesStore } = await import("/static/js/series.js");
          window.store = new SeriesStore(run);
          await store.load(["train/return"]);
        }""",
        run.pk,
    )
    assert page.evaluate("store.get('train/return').steps") == [1, 2, 3]
    page.route("**/series/?*", late)
    page.evaluate("store.loadAgain()")
    assert page.evaluate("store.get('train/return').steps") == [1, 2, 3, 4]
    assert page.evaluate("store.ends('train/return').last") == 0.5
