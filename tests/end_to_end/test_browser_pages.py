"""The pages in a real browser, on a real server, fed through ingest while they are looked at; first and failed runs."""

import re

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.end_to_end.announcements import announced, listen, wait_for
from tests.end_to_end.conftest import Server, run_make, run_told, tell
from tests.end_to_end.looks import look_at
from tests.end_to_end.seed import Story, hostile
from troupe_client.documents.launches import ClientRunBody
from webapp.accounts.models import Project, User
from webapp.runs.models import Run
from webapp.scheduling.client_runs import client_run_begin
from webapp.transcripts.models import Episode

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


Telling = tuple[Run, Story]


@pytest.fixture
def telling(ada: User) -> Telling:
    """A running run after 24 iterations, whose story can go on."""
    run, story = run_told(ada, iterations=24, ago=30)
    return run, story


def test_overview_moves_while_it_is_looked_at(page: Page, telling: Telling) -> None:
    run, story = telling
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("[data-link]")).to_have_text("live")
    chart = page.locator("#chart-return .plot")
    expect(chart.locator(".scatterlayer .trace")).not_to_have_count(0)
    before = chart.locator("path.js-line").last.get_attribute("d")
    value = page.locator('[data-figure="train/return"] .value').text_content()
    tell(run, story.iterations(24, 28))
    expect(page.locator(".run-progress [data-iteration]")).to_have_text("iteration 28 of 120")
    expect(page.locator('[data-figure="train/return"] .value')).not_to_have_text(value or "")
    expect(page.locator(".episodes tbody tr").first).to_contain_text("28·1")
    page.wait_for_function(
        "before => [...document.querySelectorAll('#chart-return path.js-line')].at(-1)?.getAttribute('d') !== before",
        arg=before,
    )
    expect(page.locator("#chart-return .legend")).not_to_contain_text("NaN")


def test_dead_server_is_said_and_survived(context: BrowserContext, server: Server, telling: Telling) -> None:
    run, story = telling
    page = context.new_page()  # a bare one: a browser cannot but complain of a server that is gone
    listen(page)
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("[data-link]")).to_have_text("live")
    server.kill()
    expect(page.locator("[data-link]")).to_contain_text("offline, retrying")
    wait_for(page, "alert", "Connection lost")
    tell(run, story.iterations(24, 30))
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
    tell(run, story.iterations(24, 119, whole=7))
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
    tell(run, story.iterations(24, 26))
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
    tell(run, hostile(story.opening()))
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("[data-link]")).to_have_text("live")
    tell(run, hostile(story.iterations(0, 2)))
    expect(page.locator(".episodes tbody tr").first).to_contain_text("<script>window.hacked = 1</script>")
    page.goto(f"/runs/{run.pk}/logs/")
    tell(run, hostile(iter([story.event("log", level="info", source="", message="")])))
    expect(page.locator(".log .text").last).to_contain_text("<script>window.hacked")
    for episode in Episode.objects.filter(run=run):
        page.goto(f"/runs/{run.pk}/episodes/{episode.pk}/")
        expect(page.locator("[data-token-strip] .token").first).to_contain_text("<script>")
        assert page.evaluate("window.hacked") is None
    tree = Episode.objects.filter(kind="train", failed=False).latest("pk")
    page.goto(f"/runs/{run.pk}/episodes/{tree.pk}/tree/")
    expect(page.locator(".card .words").first).to_contain_text("<script>window.hacked = 1</script>")
    page.keyboard.press("j")
    expect(page).to_have_url(re.compile("turn=2"))
    assert page.evaluate("window.hacked") is None


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


def test_points_that_arrive_during_a_read_are_kept(page: Page, ada: User) -> None:
    run, _ = run_told(ada, iterations=3)
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


def test_an_overview_grows_and_follows_a_choice(page: Page, server: Server, ada: User) -> None:
    run, _ = client_run_begin(
        ada, Project.objects.get(slug="lab"), ClientRunBody(id="23456789", name="resnet")
    )
    story = Story(run.pk)
    page.goto(f"{server.url}/runs/{run.pk}/")
    expect(page.get_by_role("heading", name="No numbers yet")).to_be_visible()
    tell(run, [story.event("metrics", step=1, values={"loss": 2.0, "speed": 7.0})])
    expect(page.locator(".tile dt")).to_have_text(["loss"])
    expect(page.locator(".chart h3")).to_have_text(["loss", "speed"])
    page.locator("#chart-headline-loss").evaluate("chart => { window.kept = chart }")
    tell(run, [story.event("metrics", step=2, values={"loss": 1.0, "accuracy": 0.5})])
    expect(page.locator(".chart h3")).to_have_text(["loss", "accuracy", "speed"])
    expect(page.locator(".tile", has_text="loss").locator(".under")).to_have_text("−1.00 since start")
    assert page.evaluate("document.getElementById('chart-headline-loss') === window.kept")

    page.get_by_role("button", name="Headline").click()
    page.keyboard.type("speed")
    page.keyboard.press("Enter")
    page.get_by_role("dialog", name="Headline metrics").get_by_role("button", name="Save").click()
    expect(page.locator(".tile dt")).to_have_text(["speed"])
    expect(page.locator(".chart h3")).to_have_text(["speed", "loss", "accuracy"])


CAUSE = "There is no model folder '/models/my-llama' on the machine of the workers."
REMEDY = "Set policies.*.model to a folder with config.json, model.safetensors and tokenizer.json."
TRACEBACK = "Traceback (most recent call last):\n" + "\n".join(
    f'  File "loading.py", line {number}, in load' for number in range(40)
)


def tiles_without_an_episode(page: Page) -> None:
    """The tiles show a missing return, a whole number of failed episodes, and a small cost without an exponent."""
    expect(page.locator('[data-figure="train/return"] .value')).to_have_text("–")
    expect(page.locator('[data-figure="rollout/failed"] .value')).to_have_text("48")
    expect(page.get_by_text("no finite value")).to_be_visible()
    expect(page.locator(".tile [data-hours]")).to_have_text(re.compile(r"^< 0\.01$|^\d+\.\d\d$"))


def test_a_failed_run_states_cause_and_remedy_and_leads_to_its_traceback(page: Page, ada: User) -> None:
    run, story = run_told(ada, "duo", "running")
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("[data-run-head] .state")).to_have_text("running")
    expect(page.locator("[data-fault]")).to_be_hidden()
    nothing = {"train/return": "NaN", "rollout/failed": 48.0}  # no episode of the iteration was complete
    tell(run, [story.event("metrics", step=1, values=nothing)])
    tiles_without_an_episode(page)
    tell(run, story.failing(1, CAUSE, REMEDY, TRACEBACK))
    expect(page.locator("[data-run-head] .state")).to_have_text("failed")
    expect(page.locator("[data-reason]")).to_have_text(CAUSE)
    expect(page.locator("[data-remedy]")).to_have_text(REMEDY)
    look_at(page, "failure", [("page", f"/runs/{run.pk}/"), ("runs", "/runs/")])
    expect(page.locator("[data-why]")).to_have_text(f"{CAUSE} {REMEDY}")
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("[data-reason]")).to_have_text(CAUSE)
    tiles_without_an_episode(page)
    page.goto("/runs/?columns=train/return,rollout/failed")
    shown = page.locator(f'[data-run="{run.pk}"] [data-value]')
    expect(shown).to_have_text(["–", "48"])
    page.goto(f"/runs/{run.pk}/")
    page.get_by_role("link", name="Traceback").click()
    line = page.locator("#traceback")
    expect(line).to_contain_text("Traceback (most recent call last)")
    expect(line).to_be_in_viewport()
    look_at(page, "failure", [("logs", f"/runs/{run.pk}/logs/#traceback")])


@pytest.mark.extended
def test_the_empty_list_fits_and_is_accessible(page: Page, ada: User) -> None:
    look_at(page, "first", [("runs", "/runs/")])
    expect(page.get_by_role("link", name="Set up plan_path_duo")).to_be_visible()


@pytest.mark.extended
def test_the_head_of_a_fork_fits_and_leads_to_the_comparison(page: Page, ada: User) -> None:
    parent, fork = run_make(ada, "parent", "finished"), run_make(ada, "fork", "finished")
    Run.objects.filter(pk=fork.pk).update(
        parent=parent, parent_checkpoint="checkpoints/iteration-000020", parent_iteration=20
    )
    look_at(page, "fork", [("overview", f"/runs/{fork.pk}/")])
    page.get_by_role("link", name="Compare with parent").click()
    expect(page).to_have_url(f"/compare/?runs={fork.pk},{parent.pk}")
