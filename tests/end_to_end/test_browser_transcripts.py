"""Transcripts in a browser: the stream, search, one episode."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.conftest import run_make, run_told, tell
from tests.end_to_end.looks import look_at
from tests.end_to_end.seed import Story, hostile
from webapp.accounts.models import User
from webapp.runs.models import Attempt, Run

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
Telling = tuple[Run, Story]


@pytest.fixture
def telling(ada: User) -> Telling:
    """A running run after 30 iterations of 20 transcripts each."""
    run, story = run_told(ada, state="running", iterations=30, ago=300, whole=20)
    return run, story


def test_the_stream_loads_as_it_is_scrolled_and_stays_small(page: Page, telling: Telling) -> None:
    run, story = telling
    page.goto(f"/runs/{run.pk}/transcripts/")
    rows = page.locator("[data-episodes] tbody tr.row")
    expect(page.locator("[data-link]")).to_have_text("live")
    newest = rows.first.get_attribute("id") or ""
    oldest = f"episode-{run.episodes.order_by('pk').values_list('pk', flat=True)[0]}"
    for _ in range(2000):
        page.mouse.wheel(0, 5000)
        if page.locator(f"#{oldest}").count():
            break
        page.wait_for_timeout(50)
    expect(page.locator(f"#{oldest}")).to_be_attached()
    assert rows.count() <= 360 < run.episodes.count()
    expect(page.locator(f"#{newest}")).not_to_be_attached()
    for _ in range(2000):
        page.mouse.wheel(0, -5000)
        if page.locator(f"#{newest}").count():
            break
        page.wait_for_timeout(50)
    expect(page.locator(f"#{newest}")).to_be_attached()
    keys = [int((each or "0").removeprefix("episode-")) for each in page.evaluate(
        "[...document.querySelectorAll('[data-episodes] tr.row')].map(each => each.id)")]  # fmt: skip
    assert keys == sorted(set(keys), reverse=True), "each once, newest first"
    page.goto(f"/runs/{run.pk}/transcripts/?iteration_min=16")
    expect(page.locator("[data-link]")).to_have_text("live")
    keys = [
        f"episode-{pk}"
        for pk in run.episodes.filter(iteration__gte=16).order_by("-pk").values_list("pk", flat=True)
    ]
    for count in (121, len(keys)):  # the region is read again in the middle of the list, then at its end
        scroll_to(page, count)
        page.evaluate("document.querySelector('[data-region=episodes]').dataset.read = 'before'")
        Attempt.objects.create(run=run, number=count, state="ended", submission_id=f"{run.pk}-{count}")
        tell(run, [story.event("log", level="info", source="driver", message="another attempt")])
        expect(page.locator("[data-read]")).to_have_count(0)
    scroll_to(page, len(keys))
    shown = page.evaluate("[...document.querySelectorAll('[data-episodes] tr.row')].map((row) => row.id)")
    assert shown == keys
    expect(page.locator("[data-beyond]")).to_be_hidden()


def scroll_to(page: Page, count: int) -> None:
    """Scroll down until the list has at least `count` rows."""
    for _ in range(400):
        if page.locator("[data-episodes] tbody tr.row").count() >= count:
            break
        page.mouse.wheel(0, 5000)
        page.wait_for_timeout(50)


@pytest.mark.extended
def test_search_and_filters_while_episodes_come_in(page: Page, telling: Telling) -> None:
    run, story = telling
    page.goto(f"/runs/{run.pk}/transcripts/")
    expect(page.locator("[data-link]")).to_have_text("live")
    page.keyboard.press("/")
    page.keyboard.type('"right right"')
    page.keyboard.press("Enter")
    expect(page.locator("mark").first).to_have_text("right right")
    page.wait_for_load_state()
    page.get_by_text("More filters").click()
    page.get_by_label("Role").select_option("executor")
    expect(page).to_have_url(re.compile(r"q=%22right\+right%22.*role=executor"))
    page.get_by_label("Reward from").fill("0.5")
    page.get_by_label("Reward from").press("Enter")
    expect(page).to_have_url(re.compile("reward_min=0.5"))
    first = page.locator("[data-episodes] tbody tr.row").first.get_attribute("id")
    expect(page.locator("[data-link]")).to_have_text("live")
    tell(run, story.iterations(30, 33, whole=20))
    expect(page.locator("[data-episodes] tbody tr.row").first).not_to_have_id(first or "")
    expect(page.locator("[data-episodes] tbody tr.row.fresh mark").first).to_be_visible()
    found = page.locator("[data-episodes] tbody tr.row").first
    found.get_by_role("link").click()
    expect(page.locator(".turn.here mark, .turn.here")).to_be_visible()


def test_queries_by_keyboard_and_their_curve_and_table(page: Page, telling: Telling) -> None:
    run, _ = telling
    page.goto(f"/runs/{run.pk}/transcripts/")
    field = page.locator("input[data-query]")
    field.press_sequentially("planner.rew")
    expect(page.locator(".options li").first).to_contain_text("planner.reward")
    field.press("Tab")
    field.press_sequentially("> 0")
    field.press("Enter")
    expect(page).to_have_url(re.compile(r"query=planner\.reward"))
    expect(page.locator(".kept-counts")).to_contain_text(re.compile(r"\d+ of \d+ kept match"))
    page.wait_for_load_state()
    page.get_by_role("button", name="Saved queries").click()
    page.get_by_label("Name", exact=True).fill("good plans")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("navigation", name="Saved queries")).to_contain_text("good plans")
    page.get_by_role("link", name="Share over training").click()
    expect(page.locator(".curve-plot .points path").first).to_be_attached()
    box = page.locator(".curve-plot .points path").nth(3).bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page).to_have_url(re.compile(r"transcripts/\?query=.*iteration_min="))
    page.get_by_role("link", name="Table").click()
    page.wait_for_load_state()
    page.get_by_text("Choose columns").click()
    page.get_by_label("planner.advantage").check()
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page).to_have_url(re.compile(r"columns=.*planner\.advantage"))
    page.get_by_role("link", name="turns").click()
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("turns")
    base = f"/runs/{run.pk}/transcripts"
    asked = "query=planner.reward+%3E+0+and+executor.reward+%3C%3D+0"
    episode = run.episodes.filter(kind="train", turn_count__gte=2).first()
    assert episode
    look_at(page, "questions", [
        ("list", f"{base}/?{asked}"), ("wrong", f"{base}/?query=colour+%3D+1"), ("table", f"{base}/table/?sort=-return"),
        ("curve", f"{base}/curve/?{asked}&base=iteration+%3C+25"), ("ask", f"{base}/curve/"),
        ("tree", f"/runs/{run.pk}/episodes/{episode.pk}/tree/"),
    ])  # fmt: skip


@pytest.mark.extended
def test_notes_by_keyboard(page: Page, telling: Telling) -> None:
    run, _ = telling
    episode = run.episodes.filter(kind="train", failed=False, turn_count__gte=2).order_by("-pk").first()
    assert episode
    page.goto(f"/runs/{run.pk}/episodes/{episode.pk}/#turn-3")
    expect(page.locator("#turn-3")).to_have_class(re.compile("here"))
    expect(page.locator("#turn-3")).to_be_in_viewport()
    page.keyboard.press("n")
    expect(page.get_by_role("dialog", name="Label or note answer #3")).to_be_visible()
    page.keyboard.type("odd")
    page.get_by_label("Note", exact=True).fill("<img src=x onerror=window.hacked=1>")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#turn-3 .notes")).to_contain_text("<img src=x")
    assert page.url.endswith("#turn-3") and page.evaluate("window.hacked") is None
    page.get_by_role("button", name="Remove the note odd").click()
    expect(page.locator(".notes")).to_have_count(0)


@pytest.mark.extended
def test_scripts_stay_text_in_the_stream(page: Page, ada: User) -> None:
    run = run_make(ada, state="running")
    story = Story(run.pk)
    tell(run, hostile(story.opening()))
    tell(run, hostile(story.iterations(0, 2)))
    page.goto(f"/runs/{run.pk}/transcripts/?q=hacked")
    expect(page.locator("[data-link]")).to_have_text("live")
    expect(page.locator(".hit").first).to_contain_text("<script>window.hacked = 1</script>")
    tell(run, hostile(story.iterations(2, 4)))
    expect(page.locator("tr.fresh .hit").first).to_contain_text("<script>")
    assert page.evaluate("window.hacked") is None
    page.goto(f"/runs/{run.pk}/transcripts/?reward_min=99999")
    expect(page.locator("[data-link]")).to_have_text("live")
    for iteration in (4, 5):  # an empty list asks only for later episodes than the server has examined
        newest = run.episodes.latest("pk").pk
        with page.expect_request(re.compile("part=rows")) as asked:
            tell(run, story.iterations(iteration, iteration + 1))
        assert f"after={newest}&" in asked.value.url
        examined = str(run.episodes.latest("pk").pk)
        expect(page.locator("[data-episodes]")).to_have_attribute("data-newest", examined)
