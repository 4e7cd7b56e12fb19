"""The pages in a real browser, on a real server, fed through ingest while they are looked at."""

import re
import time

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.end_to_end.announcements import announced, listen, wait_for
from tests.end_to_end.conftest import Server, run_make, tell
from tests.end_to_end.seed import Story, encoded, hostile
from webapp.accounts.models import User
from webapp.runs.models import Run
from webapp.transcripts.models import Episode

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
Telling = tuple[Run, Story]


@pytest.fixture
def telling(ada: User) -> Telling:
    """A running run after 24 iterations, whose story can go on."""
    run = run_make(ada)
    story = Story(run.pk, start=time.time() - 30)
    tell(run, encoded(story.opening()))
    tell(run, encoded(story.iterations(0, 24)))
    return run, story


def test_overview_moves_while_it_is_looked_at(page: Page, telling: Telling) -> None:
    run, story = telling
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("[data-link]")).to_have_text("live")
    chart = page.locator("#chart-return .plot")
    expect(chart.locator(".scatterlayer .trace")).not_to_have_count(0)
    before = chart.locator("path.js-line").last.get_attribute("d")
    value = page.locator('[data-figure="train/return"] .value').text_content()
    tell(run, encoded(story.iterations(24, 28)))
    expect(page.locator(".run-progress [data-iteration]")).to_have_text("iteration 28 of 120")
    expect(page.locator('[data-figure="train/return"] .value')).not_to_have_text(value or "")
    expect(page.locator(".episodes tbody tr").first).to_contain_text("28·1")
    page.wait_for_function(
        "before => [...document.querySelectorAll('#chart-return path.js-line')].at(-1)?.getAttribute('d') !== before",
        arg=before,
    )
    expect(page.locator("#chart-return .legend")).not_to_contain_text("NaN")


def test_a_dead_server_is_said_and_survived(
    context: BrowserContext, server: Server, telling: Telling
) -> None:
    run, story = telling
    page = context.new_page()  # a bare one: a browser cannot but complain of a server that is gone
    listen(page)
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("[data-link]")).to_have_text("live")
    server.kill()
    expect(page.locator("[data-link]")).to_contain_text("offline, retrying")
    wait_for(page, "alert", "Connection lost")
    tell(run, encoded(story.iterations(24, 30)))
    server.start()
    expect(page.locator("[data-link]")).to_have_text("live")
    expect(page.locator(".run-progress [data-iteration]")).to_have_text("iteration 30 of 120")
    wait_for(page, "status", "Connected again")
    lost = [text for text in announced(page) if "Connection lost" in text]
    assert len(lost) == 1, "the seconds until the next attempt are not announced"
    page.wait_for_function("document.querySelector('#chart-reward .plot').data?.at(-1).x.at(-1) === 30")
    steps = page.evaluate("document.querySelector('#chart-reward .plot').data.at(-1).x")
    assert steps == list(range(1, 31)), "every point once"


@pytest.mark.extended
def test_a_drawing_library_that_was_not_read_is_asked_for_again(
    context: BrowserContext, telling: Telling
) -> None:
    page, asked = context.new_page(), []  # a bare one: a browser complains of what it could not read

    def first_refused(route: Route) -> None:
        asked.append(route.request.url)
        route.abort() if len(asked) == 1 else route.continue_()

    page.route("**/vendor/plotly*", first_refused)
    page.goto(f"/runs/{telling[0].pk}/")
    expect(page.locator("#chart-return .plot .scatterlayer .trace")).not_to_have_count(0)
    assert len(asked) == 2


def test_a_flood_ends_in_a_resync_and_the_same_curve(page: Page, telling: Telling) -> None:
    run, story = telling
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("[data-link]")).to_have_text("live")
    tell(run, encoded(story.iterations(24, 119, whole=7)))
    expect(page.locator(".run-progress [data-iteration]")).to_have_text("iteration 119 of 120")
    page.wait_for_function("document.querySelector('#chart-reward .plot').data?.at(-1).x.at(-1) === 119")
    assert page.evaluate("document.querySelector('#chart-reward .plot').data.at(-1).x") == list(range(1, 120))


@pytest.mark.extended
def test_runs_list_is_live(page: Page, telling: Telling, ada: User) -> None:
    run, story = telling
    page.goto("/runs/")
    row = page.locator(f'tr[data-run="{run.pk}"]')
    expect(row.locator("[data-iteration]")).to_have_text("24 of 120")
    expect(page.locator("[data-link]")).to_have_text("live")
    tell(run, encoded(story.iterations(24, 26)))
    expect(row.locator("[data-iteration]")).to_have_text("26 of 120")
    page.keyboard.press("/")
    expect(page.locator("[data-search]")).to_be_focused()
    page.keyboard.type("nothing like it")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_contain_text("No run matches these filters")
    assert "q=nothing" in page.url


@pytest.mark.extended
def test_transcript_by_keyboard(page: Page, telling: Telling) -> None:
    run, _ = telling
    episode = (
        Episode.objects.filter(run=run, kind="train", failed=False, turn_count__gte=2).order_by("-pk").first()
    )
    assert episode
    page.goto(f"/runs/{run.pk}/episodes/{episode.pk}/#turn-2")
    expect(page.locator("#turn-2")).to_have_class(re.compile("here"))
    expect(page.locator("[data-board-note]")).to_contain_text("before #2")
    page.keyboard.press("j")
    expect(page.locator("#turn-3")).to_be_focused()
    assert page.url.endswith("#turn-3")
    page.keyboard.press("k")
    page.keyboard.press("k")
    expect(page.locator("#turn-1")).to_have_class(re.compile("here"))
    page.locator("#turn-1 [data-candidate]").nth(3).click()
    expect(page.locator("[data-tokens-note]")).to_contain_text("of #1")
    expect(page.locator("#turn-1 [data-candidate]").nth(3)).to_have_attribute("aria-pressed", "true")
    page.locator("[data-tokens-by]").select_option("ratios")
    expect(page).to_have_url(re.compile(r"\?candidate=4&by=ratios#turn-1$"))
    assert page.locator("[data-token-strip] .token").count() >= 2
    page.locator("[data-board-scrub]").focus()
    page.keyboard.press("End")
    expect(page.locator("[data-board-note]")).to_have_text("at the end")
    page.keyboard.press("[")
    page.wait_for_url(re.compile(rf"/episodes/(?!{episode.pk}/)"))


def test_scripts_in_transcripts_stay_text(page: Page, ada: User) -> None:
    run = run_make(ada)
    story = Story(run.pk)
    tell(run, encoded(hostile(story.opening())))
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("[data-link]")).to_have_text("live")
    tell(run, encoded(hostile(story.iterations(0, 2))))
    expect(page.locator(".episodes tbody tr").first).to_contain_text("<script>window.hacked = 1</script>")
    page.goto(f"/runs/{run.pk}/logs/")
    tell(run, encoded(hostile(iter([story.event("log", level="info", source="", message="")]))))
    expect(page.locator(".log .text").last).to_contain_text("<script>window.hacked")
    for episode in Episode.objects.filter(run=run):
        page.goto(f"/runs/{run.pk}/episodes/{episode.pk}/")
        expect(page.locator("[data-token-strip] .token").first).to_contain_text("<script>")
        assert page.evaluate("window.hacked") is None


def test_form_checks_while_typing_and_launches(page: Page, ada: User) -> None:
    page.goto("/experiments/new/")
    expect(page.locator("#preview")).to_contain_text("plan_path_duo unchanged")
    page.get_by_label("group size").fill("1")
    error = page.locator('[data-field="rollout.group_size"] [data-error]')
    expect(error).to_contain_text("a group of one has no advantage")
    expect(page.get_by_label("group size")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("group size").fill("6")
    expect(error).to_be_hidden()
    expect(page.locator("#words")).to_contain_text("rollout.group_size=6")
    expect(page.locator('[data-field="rollout.group_size"]')).to_have_class(re.compile("changed"))
    page.locator('[data-section="resources"] summary').click()
    page.get_by_label("environments per worker").fill("2")
    expect(page.locator("#preview")).to_contain_text("cannot hold rollout.tasks")
    page.locator("#preview a").first.click()
    expect(page.get_by_label("environments per worker")).to_be_focused()
    page.get_by_label("environments per worker").fill("64")
    page.get_by_label("name", exact=True).fill("from the browser")
    expect(page.locator("#preview")).to_contain_text("Ready to launch, with 2 changes")
    page.get_by_role("button", name="Launch").click()
    expect(page.locator("h1")).to_have_text("from the browser")
    assert Run.objects.get().config["rollout"]["group_size"] == 6


@pytest.mark.extended
def test_theme_menu_and_help(page: Page, telling: Telling) -> None:
    page.goto("/runs/")
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Theme: system").click()
    page.get_by_role("button", name="Theme: light").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(19, 20, 22)"
    page.reload()
    expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.set_viewport_size({"width": 390, "height": 800})
    link = page.locator(".side nav a", has_text="New experiment")
    expect(link).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    link.click()
    expect(page.locator("h1")).to_have_text("New experiment")
