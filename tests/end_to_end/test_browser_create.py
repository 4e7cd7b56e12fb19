"""Setting up experiments in a real browser: sweeps."""

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.conftest import run_make
from tests.end_to_end.looks import violations
from webapp.accounts.models import Project, User
from webapp.experiments.models import Sweep
from webapp.experiments.services import sweep_create
from webapp.experiments.sweeps import plan_make
from webapp.runs.models import Run, RunState
from webapp.runs.selectors import DEMONSTRATION

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
RATES = "policies.*.learner.learning_rate"


def shoot(page: Page, name: str) -> None:
    """Pictures to look at, where TROUPE_SHOTS names a folder."""
    folder = os.environ.get("TROUPE_SHOTS")
    if not folder:
        return
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for width, height in ((1440, 900), (390, 844)):
            page.set_viewport_size({"width": width, "height": height})
            page.screenshot(path=Path(folder) / f"{name}-{width}-{scheme}.png", full_page=True)
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1280, "height": 900})


def fits(page: Page) -> None:
    """No serious violation, and no scrolling sideways on a phone."""
    assert violations(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.set_viewport_size({"width": 1280, "height": 900})


@pytest.fixture
def sweep(ada: User) -> Sweep:
    """Six runs, some of them further than others."""
    plan = plan_make("plan_path_duo", {"run.iterations": 40}, {RATES: [3e-4, 1e-3], "run.seed": [0, 1, 2]})
    made = sweep_create(ada, Project.objects.get(slug="lab"), plan, "rates")
    values = (0.41, 0.38, None, 0.83, 0.79, 0.86)
    for value, run in zip(values, made.runs.order_by("created_at"), strict=True):
        if value is not None:
            spark = {
                "key": "train/return",
                "values": [0.1, 0.2, 0.5 * value, value],
                "stride": 10,
                "counts": [10] * 4,
            }
            run.headline = {
                "eval/success": value,
                "eval_sampled/success": value - 0.05,
                "train/return": value,
                "spark": spark,
            }
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
    shoot(page, "sweep-new")
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
    shoot(page, "sweep")
    fits(page)
    page.get_by_role("link", name="success, greedy").click()
    expect(page).to_have_url(re.compile("sort=-eval%2Fsuccess"))
    expect(page.get_by_role("region", name="Runs").locator("tbody tr").first).to_contain_text("0.86")
    last = sweep.runs.get(state=RunState.QUEUED)
    last.state, last.headline = RunState.FINISHED, {"eval/success": 0.97}
    last.save()
    expect(page.locator("#sweep-runs")).to_contain_text("6 of 6 runs ended")
    expect(page.get_by_role("region", name="Runs").locator("tbody tr").first).to_contain_text("0.97")
    page.goto("/experiments/sweeps/")
    shoot(page, "sweeps")
    fits(page)


@pytest.mark.extended
def test_descriptions_of_fields_are_lines_of_text(page: Page, ada: User) -> None:
    """Description and "?" button once had the same class, so that descriptions were drawn as circles."""
    page.goto("/experiments/new/?preset=plan_path_duo")
    field = page.locator('[data-field="rollout.group_size"]').first
    label, text = field.locator("input").bounding_box(), field.locator("p.help").bounding_box()
    assert label and text and text["width"] >= label["width"]
    assert text["y"] >= label["y"] + label["height"]


@pytest.mark.extended
def test_the_estimate_follows_the_form(page: Page, ada: User) -> None:
    page.goto("/experiments/new/")
    estimate = page.locator("#estimate")
    expect(estimate).to_contain_text("200,512 parameters")
    expect(estimate).to_contain_text("30,720")
    page.get_by_label("group size").fill("4")
    expect(estimate).to_contain_text("15,360")
    estimate.get_by_text("rollout and update").first.click()
    expect(estimate.get_by_text("optimizer states").first).to_be_visible()
    page.get_by_label("group size").fill("1")
    expect(estimate).to_contain_text("Fix the errors above to see an estimate.")
    expect(page.locator("[data-field='rollout.group_size'] [data-error]")).to_contain_text("use 2 or more")
    page.get_by_label("group size").fill("8")
    expect(estimate).to_contain_text("30,720")
    shoot(page, "estimate")
    fits(page)


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
    shoot(page, "team")
    fits(page)
    page.reload()
    expect(picture).to_have_attribute("aria-label", re.compile("executor, then planner.*planner, frozen"))


@pytest.mark.extended
def test_roles_and_policies_are_added_and_removed(page: Page, ada: User) -> None:
    page.goto("/experiments/new/")
    team = page.get_by_role("region", name="Team")
    page.get_by_label("group size").fill("4")
    team.get_by_label("New role").fill("Critic")
    team.get_by_role("button", name="Add role").click()
    expect(team.locator("#role-name-refused")).to_contain_text("is not a valid name")
    team.get_by_label("New role").fill("critic")
    team.get_by_role("button", name="Add role").click()
    expect(team.locator(".team-role")).to_have_count(3)
    expect(team.locator("#role-name-error")).to_contain_text("needs the roles planner, executor")
    expect(page.get_by_label("group size")).to_have_value("4")
    team.get_by_label("New policy").fill("large")
    team.get_by_role("button", name="Add policy").click()
    team.locator("[data-field='team.roles.critic.policy'] select").select_option("large")
    expect(team.get_by_role("img")).to_have_attribute("aria-label", re.compile("critic speaks through large"))
    shoot(page, "team-three")
    fits(page)
    team.get_by_role("button", name="Remove the role critic").click()
    expect(team.locator(".team-role")).to_have_count(2)
    team.get_by_role("button", name="Remove the policy executor").click()
    team.locator("[data-field='team.roles.executor.policy'] select").select_option("large")
    expect(page.locator("#preview")).to_contain_text("Ready to launch")
    page.get_by_role("button", name="Launch").click()
    expect(page).to_have_url(re.compile("/runs/"))
    run = Run.objects.get()
    assert set(run.config["policies"]) == {"planner", "large"} and run.config["rollout"]["group_size"] == 4
    assert run.config["team"]["roles"]["executor"]["policy"] == "large"


def test_an_experiment_is_set_up_from_the_gallery_to_the_sweep(page: Page, ada: User) -> None:
    page.goto("/experiments/new/")
    gallery = page.get_by_role("region", name="Preset")
    expect(gallery.get_by_role("link", name="plan_path_duo Two agents")).to_contain_text(
        "takes 1 to 2 minutes"
    )
    shoot(page, "new")
    page.get_by_label("group size").fill("1")
    error = page.locator("[data-field='rollout.group_size'] [data-error]")
    expect(error).to_contain_text("a group of one has no advantage")
    expect(page.get_by_label("group size")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("group size").fill("4")
    expect(error).to_be_hidden()
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
    shoot(page, "words")
    fits(page)
    page.get_by_role("link", name="Vary fields in a sweep").click()
    expect(page.locator("textarea[name=shared]")).to_have_value(re.compile("rollout.group_size=4"))


@pytest.mark.extended
def test_another_algorithm_brings_its_own_settings(page: Page, ada: User) -> None:
    page.goto("/experiments/new/")
    page.get_by_label("tasks", exact=True).fill("24")
    page.get_by_label("algorithm type").select_option("dapo")
    expect(page.locator("[data-field='algorithm.clip_high'] input")).to_have_value("0.28")
    expect(page.get_by_label("tasks", exact=True)).to_have_value("24")
    expect(page.get_by_label("algorithm type")).to_have_value("dapo")
    page.get_by_text("The same run as command").click()
    expect(page.locator("#launch")).to_have_text(re.compile(r"algorithm\.type=dapo \\\s+rollout\.tasks=24"))
    page.get_by_role("button", name="Launch").click()
    expect(page).to_have_url(re.compile("/runs/"))
    config = Run.objects.get().config
    assert config["algorithm"] == {
        **config["algorithm"],
        "type": "dapo",
        "clip_high": 0.28,
        "kl_coefficient": 0.0,
    }


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
    shoot(page, "all-open")
    fits(page)


@pytest.mark.extended
def test_a_run_is_cloned_with_edits(page: Page, ada: User) -> None:
    first = run_make(ada, "first")
    Run.objects.filter(pk=first.pk).update(tags=["baseline", DEMONSTRATION])
    page.goto(f"/runs/{first.pk}/")
    page.get_by_role("link", name="Run again").click()
    expect(page.get_by_label("iterations", exact=True)).to_have_value("120")
    page.get_by_label("seed", exact=True).fill("7")
    expect(page.locator("#preview")).to_contain_text("with 1 change from plan_path_duo")
    expect(page.get_by_label("tags", exact=True)).to_have_value("baseline")
    page.get_by_role("button", name="Launch").click()
    expect(page).to_have_url(re.compile("/runs/"))
    assert Run.objects.exclude(pk=first.pk).get().config["run"] == {
        **first.config["run"],
        "name": "first",
        "seed": 7,
        "tags": ["baseline"],
    }


@pytest.mark.extended
def test_a_template_is_saved_started_from_and_deleted(page: Page, ada: User) -> None:
    page.goto("/experiments/new/")
    page.get_by_label("group size").fill("4")
    page.get_by_text("Save as template").click()
    aside = page.get_by_role("complementary")
    aside.get_by_label("Name", exact=True).fill("small groups")
    aside.get_by_label("Description").fill("Groups of four: half the answers, noisier advantages.")
    aside.get_by_role("button", name="Save template").click()
    expect(page.locator("main")).to_contain_text("Saved as the template small groups.")
    expect(page.get_by_label("group size")).to_have_value("4")
    shoot(page, "template")
    fits(page)
    page.goto("/experiments/new/")
    expect(page.get_by_label("group size")).to_have_value("8")
    page.get_by_role("link", name="small groups").click()
    expect(page.get_by_label("group size")).to_have_value("4")
    page.get_by_role("button", name="Delete the template small groups").click()
    expect(page.locator("main")).to_contain_text("The template small groups is deleted.")
    expect(page.locator(".kept")).to_have_count(0)


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
    shoot(page, "field-search")
    fits(page)
