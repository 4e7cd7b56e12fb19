"""Setting up experiments in a real browser: presets, teams, fields, sweeps."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.looks import fits
from webapp.accounts.models import Project, User
from webapp.experiments.models import Sweep
from webapp.experiments.services import sweep_create
from webapp.experiments.sweeps import plan_make
from webapp.runs.models import RunState

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


RATES = "policies.*.learner.learning_rate"


@pytest.fixture
def sweep(ada: User) -> Sweep:
    """Six runs, some of them further than others."""
    plan = plan_make("plan_path_duo", {"run.iterations": 40}, {RATES: [3e-4, 1e-3], "run.seed": [0, 1, 2]})
    made = sweep_create(ada, Project.objects.get(slug="lab"), plan, "rates")
    values = (0.41, 0.38, None, 0.83, 0.79, 0.86)
    for value, run in zip(values, made.runs.order_by("created_at"), strict=True):
        if value is not None:
            curve = {"values": [0.1, 0.2, 0.5 * value, value], "stride": 10, "counts": [10] * 4}
            spark = {"key": "train/return"} | curve
            run.headline = {"eval/success": value, "train/return": value, "spark": spark}
            run.state, run.iteration = RunState.FINISHED, 40
            run.save()
    return made


@pytest.mark.extended
def test_a_sweep_is_planned_while_it_is_written(page: Page, ada: User) -> None:
    page.goto("/experiments/sweeps/")
    page.get_by_role("link", name="Set up a sweep").click()
    expect(page.locator("#plan")).to_contain_text("3 runs to launch")
    page.get_by_label("Field 1", exact=True).fill("algorithm.lr")
    page.get_by_label("Values of field 1").fill("3e-4, 1e-3")
    expect(page.locator("#plan")).to_contain_text("did you mean policies.*.learner.learning_rate?")
    page.get_by_label("Field 1", exact=True).fill(RATES)
    expect(page.locator("#plan")).to_contain_text("6 runs to launch")
    page.get_by_role("button", name="Add a field").click()
    expect(page.get_by_label("Field 4", exact=True)).to_be_focused()
    page.keyboard.type("rollout.group_size")
    page.get_by_label("Values of field 4").fill("4, 8")
    expect(page.locator("#plan")).to_contain_text("12 runs to launch")
    fits(page)
    page.get_by_role("button", name="Remove field 4").click()
    expect(page.locator("#plan")).to_contain_text("6 runs to launch")
    page.get_by_label("Name").fill("rates")
    page.get_by_role("button", name="Launch all").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("rates")
    expect(page.locator("tbody a.row-link")).to_have_count(6)


@pytest.mark.extended
def test_a_sweep_shows_its_points_and_follows_its_runs(page: Page, sweep: Sweep) -> None:
    page.goto(f"/experiments/sweeps/{sweep.pk}/")
    points = page.get_by_role("region", name="Points")
    expect(points.locator("tbody tr").first).to_contain_text("0.001")
    expect(points.locator("tbody tr").first).to_contain_text("best")
    expect(page.locator("#sweep-runs")).to_contain_text("5 of 6 runs ended")
    fits(page)
    page.get_by_role("link", name="success, greedy", exact=True).click()
    expect(page).to_have_url(re.compile("sort=-eval%2Fsuccess"))
    expect(page.get_by_role("region", name="Runs").locator("tbody tr").first).to_contain_text("0.86")
    last = sweep.runs.get(state=RunState.QUEUED)
    last.state, last.headline = RunState.FINISHED, {"eval/success": 0.97}
    last.save()
    expect(page.locator("#sweep-runs")).to_contain_text("6 of 6 runs ended")
    expect(page.get_by_role("region", name="Runs").locator("tbody tr").first).to_contain_text("0.97")
    page.goto("/experiments/sweeps/")
    fits(page)


@pytest.mark.extended
def test_descriptions_of_fields_are_lines_of_text(page: Page, ada: User) -> None:
    """Description and "?" button once had the same class, so that descriptions were drawn as circles."""
    page.goto("/experiments/new/?preset=plan_path_duo")
    field = page.locator('[data-field="rollout.group_size"]').first
    label, text = field.locator("input").bounding_box(), field.locator("p.help").bounding_box()
    assert label and text and text["width"] >= label["width"]
    assert text["y"] >= label["y"] + label["height"]


def test_a_team_is_edited_by_keyboard(page: Page, ada: User) -> None:
    page.goto("/experiments/new/")
    team = page.get_by_role("region", name="Team")
    picture = team.get_by_role("img")
    expect(picture).to_have_attribute("aria-label", re.compile("planner, then executor"))
    later = team.get_by_role("button", name="Move planner down")
    later.focus()
    page.keyboard.press("Enter")
    expect(picture).to_have_attribute("aria-label", re.compile("executor, then planner"))
    expect(later).to_be_focused()
    expect(team.get_by_role("textbox", name="turn order")).to_have_value("executor, planner")
    expect(page).to_have_url(re.compile("team.turn_order"))
    team.locator("[data-field='team.roles.executor.trained'] input[type=checkbox]").uncheck()
    expect(picture).to_have_attribute("aria-label", re.compile("executor speaks through executor, frozen"))
    team.locator("[data-field='team.roles.executor.policy'] select").select_option("planner")
    expect(picture).to_have_attribute("aria-label", re.compile("executor speaks through planner, frozen"))
    expect(page.locator("#preview")).to_contain_text("Ready to launch, with 3 changes")
    fits(page)
    page.reload()
    expect(picture).to_have_attribute("aria-label", re.compile("executor, then planner.*planner, frozen"))


def test_an_experiment_is_set_up_from_the_gallery_to_the_sweep(page: Page, ada: User) -> None:
    page.goto("/experiments/new/")
    gallery = page.get_by_role("region", name="Preset")
    expect(gallery.get_by_role("link", name="plan_path_duo Two agents")).to_contain_text(
        "takes 1 to 2 minutes"
    )
    page.get_by_label("group size").fill("1")
    error = page.locator("[data-field='rollout.group_size'] [data-error]")
    expect(error).to_contain_text("a group of one has no advantage")
    expect(page.get_by_label("group size")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("group size").fill("4")
    expect(error).to_be_hidden()
    expect(page.locator("#estimate")).to_contain_text("15,360")
    expect(page.locator("[data-field='rollout.group_size']")).to_have_class(re.compile("changed"))
    expect(page.locator("[data-field='rollout.group_size'] .was")).to_have_text("preset: 8")
    section = page.locator("[data-section='resources']")
    section.locator("summary").click()
    section.get_by_label("environments per worker").fill("1")
    expect(section.locator("[data-changed]")).to_have_text("1 changed")
    expect(page.locator("#preview")).to_contain_text("1 error to fix")
    section.locator("summary").click()
    page.locator("#preview").get_by_role("link", name="resources.environments_per_worker").click()
    expect(section.get_by_label("environments per worker")).to_be_focused()
    section.get_by_label("environments per worker").fill("64")
    page.get_by_text("The same run as command").click()
    expect(page.locator("#launch")).to_contain_text("rollout.group_size=4")
    expect(page.locator("#curl")).to_contain_text('"rollout.group_size": 4')
    expect(page.locator("#toml")).to_contain_text("group_size = 4")
    expect(page).to_have_url(re.compile("rollout.group_size=4.*environments_per_worker=64"))
    fits(page)
    page.get_by_role("link", name="Vary fields in a sweep").click()
    expect(page.locator("textarea[name=shared]")).to_have_value(re.compile("rollout.group_size=4"))


@pytest.mark.extended
def test_every_part_fits_a_phone_when_open_and_arguments_are_written(page: Page, ada: User) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/experiments/new/")
    page.get_by_label("environment type").select_option("custom")
    team = page.get_by_role("region", name="Team")
    expect(page.locator("#preview")).to_contain_text("environment.path this field is required")
    arguments = page.locator("[data-field='environment.args']")
    arguments.locator("textarea").fill("depth 3")
    expect(arguments.locator("[data-error]")).to_contain_text("as in TOML")
    arguments.locator("textarea").fill("depth = 3")
    expect(arguments.locator("[data-error]")).to_be_hidden()
    expect(arguments.locator(".was")).to_have_text("preset: –")
    expect(page).to_have_url(re.compile("environment.args.depth=3"))
    team.get_by_role("button", name="Move planner down").click()
    expect(team.get_by_role("img")).to_have_attribute("aria-label", re.compile("executor, then planner"))
    expect(arguments.locator("textarea")).to_have_value("depth = 3")
    for kind in ("rollout_workflow", "agent", "rollout_buffer"):
        page.locator("[data-section='workflow']").evaluate("each => { each.open = true }")
        page.locator("[data-field='workflow.type'] select").select_option(kind)
        expect(page.locator("[data-field='workflow.success_at']")).to_be_attached()
        page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    fits(page)


@pytest.mark.extended
def test_fields_are_found_and_launch_stays_in_reach(page: Page, ada: User) -> None:
    page.goto("/experiments/new/")
    search = page.get_by_label("Find a field")
    search.fill("clip low")
    expect(page.locator("[data-field='algorithm.clip_low']")).to_be_visible()
    expect(page.locator("[data-field='run.seed']")).to_be_hidden()
    search.press("Enter")
    expect(page.locator("[data-field='algorithm.clip_low'] input")).to_be_focused()
    page.locator("[data-field='algorithm.clip_low'] input").fill("0.3")
    expect(page.locator("#preview")).to_contain_text("with 1 change from plan_path_duo")
    search.fill("")
    expect(page.locator("[data-field='run.seed']")).to_be_visible()
    page.locator("[data-section='health'] summary").first.scroll_into_view_if_needed()
    expect(page.get_by_role("button", name="Launch", exact=True)).to_be_in_viewport()
    fits(page)


@pytest.mark.extended
def test_a_role_is_renamed_by_keyboard(page: Page, ada: User) -> None:
    page.goto("/experiments/new/?preset=arithmetic")
    expect(page.locator("#preview")).to_contain_text("Ready to launch")
    page.locator("#rename-reasoner").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_label("New name of the role reasoner")).to_be_focused()
    page.keyboard.press("Control+A")
    page.keyboard.type("tool")
    page.keyboard.press("Enter")
    expect(page.locator("#rename-refused-reasoner")).to_have_text("tool already exists")
    fits(page)
    field = page.get_by_label("New name of the role reasoner")
    expect(field).to_be_focused()
    expect(field).to_have_value("tool")
    field.fill("critic")
    page.keyboard.press("Enter")
    expect(page.locator("#rename-critic")).to_be_focused()
    expect(page.locator("#team-picture svg")).to_contain_text("critic")
    expect(page.locator("#preview")).to_contain_text("Ready to launch")
    expect(page).to_have_url(re.compile("team.roles"))
    page.locator("#rename-critic").press("Enter")
    fits(page)


def test_presets_are_found_by_keyboard_and_the_address_keeps_the_words(page: Page, ada: User) -> None:
    page.goto("/experiments/new/")
    gallery = page.get_by_role("region", name="Preset", exact=True)
    own, others = (
        gallery.get_by_role("link", name="plan_path_duo Two agents"),
        gallery.get_by_role("link", name="spread_toy Five"),
    )
    expect(own).to_be_visible()
    expect(others).to_be_hidden()  # folded away: the chosen preset is of another task
    page.keyboard.press("/")
    search = page.get_by_label("Find a preset")
    expect(search).to_be_focused()
    page.keyboard.type("memory gru")
    expect(gallery.get_by_role("link")).to_have_count(2)
    expect(gallery.get_by_role("status")).to_have_text("2 found")
    expect(page).to_have_url(re.compile(r"[?&]find=memory\+gru"))
    search.fill("memory sudoku")
    expect(gallery.get_by_text("No preset matches.")).to_be_visible()
    search.fill("")
    expect(own).to_be_visible()
    expect(others).to_be_hidden()  # as it was before
    expect(page).to_have_url(re.compile(r"/experiments/new/$"))
    search.fill("toys")
    expect(gallery.get_by_role("link")).to_have_count(3)
    search.press("Enter")
    expect(page).to_have_url(re.compile(r"preset=spread_toy&find=toys"))
    expect(others).to_have_attribute("aria-current", "true")
    expect(gallery.get_by_role("link")).to_have_count(3)
    page.locator("[data-field='run.seed'] input").fill("3")
    expect(page).to_have_url(re.compile(r"run\.seed=3"))
    expect(page).to_have_url(re.compile(r"find=toys"))
