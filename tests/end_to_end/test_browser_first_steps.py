"""Pages that no crawl reaches once runs exist: the empty list, and the head of a fork."""

import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.conftest import run_make
from tests.end_to_end.looks import look_at
from webapp.accounts.models import User
from webapp.runs.models import Run

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True), pytest.mark.extended]


def test_the_empty_list_fits_and_is_accessible(page: Page, ada: User) -> None:
    look_at(page, "first", [("runs", "/runs/")])
    expect(page.get_by_role("link", name="Set up plan_path_duo")).to_be_visible()


def test_the_head_of_a_fork_fits_and_leads_to_the_comparison(page: Page, ada: User) -> None:
    parent, fork = run_make(ada, "parent", "finished"), run_make(ada, "fork", "finished")
    Run.objects.filter(pk=fork.pk).update(
        parent=parent, parent_checkpoint="checkpoints/iteration-000020", parent_iteration=20
    )
    look_at(page, "fork", [("overview", f"/runs/{fork.pk}/")])
    page.get_by_role("link", name="Compare with parent").click()
    expect(page).to_have_url(f"/compare/?runs={fork.pk},{parent.pk}")
