"""Templates and the gallery of presets: what to expect, what was seen here."""

from datetime import timedelta

import pytest
from django.core.exceptions import PermissionDenied
from django.test import Client
from django.utils import timezone

from tests.webapp.elements import elements, text_of, texts_of
from tests.webapp.pages.test_experiment import posted
from training_core.config.files import expected_of, load_config, preset_names, read_preset
from training_core.config.kinds import config_kind
from training_core.config.marl import MarlConfig
from training_core.errors import ConfigError
from troupe_client.documents.experiments import PresetSeen
from webapp.accounts.models import AuditEntry, Membership, Project, User
from webapp.experiments.gallery import PresetGroup, gallery, groups
from webapp.experiments.models import Template
from webapp.experiments.services import template_save
from webapp.runs.configs import family_of
from webapp.runs.models import Run

NEW = "/experiments/new/"
SAVE = "/experiments/templates/save/"


@pytest.fixture
def small(user: User, project: Project) -> Template:
    changes = {"rollout.group_size": 4, "run.iterations": 5}
    return template_save(user, project, "small", "plan_path_duo", changes, "for a quick look")


def test_the_form_saves_what_it_holds(ada: Client) -> None:
    form = posted(ada) | {
        "rollout.group_size": "4",
        "template_name": " small ",
        "template_description": "quick",
    }
    answer = ada.post(SAVE, form)
    template = Template.objects.get()
    assert answer.status_code == 302 and answer["Location"] == f"{NEW}?template={template.pk}"
    assert (template.name, template.description, template.preset) == ("small", "quick", "plan_path_duo")
    assert template.overrides == {"rollout.group_size": 4}
    assert AuditEntry.objects.filter(act="template.save", target=str(template.pk)).exists()
    assert not Run.objects.exists()
    page = ada.get(answer["Location"]).content.decode()
    assert "Saved as the template small." in page and 'name="rollout.group_size" value="4"' in page


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"template_name": ""}, "give the template a name"),
        ({"template_name": "small"}, "choose another name, or replace it"),
        ({"template_name": "x", "rollout.tasks": "many"}, "The template is not saved"),
        ({"template_name": "x", "project": "elsewhere"}, "Select a project"),
        ({"template_name": "x", "preset": "gone"}, "no preset"),
    ],
)
def test_what_was_written_is_kept_where_it_is_refused(
    ada: Client, small: Template, change: dict[str, str], said: str
) -> None:
    form = posted(ada) | {"template_description": "words", "rollout.group_size": "6"} | change
    answer = ada.post(SAVE, form)
    html = answer.content.decode()
    assert answer.status_code == 400 and said in html and "words" in texts_of(html, "textarea")
    assert 'name="rollout.group_size" value="6"' in html or "preset" in change
    assert Template.objects.count() == 1


def test_a_template_may_be_replaced(ada: Client, small: Template) -> None:
    form = posted(ada) | {"template_name": "small", "template_replace": "1", "rollout.group_size": "6"}
    assert ada.post(SAVE, form).status_code == 302
    small.refresh_from_db()
    assert small.overrides == {"rollout.group_size": 6} and small.description == ""


def test_the_form_starts_from_one(ada: Client, small: Template) -> None:
    page = ada.get(NEW, {"template": small.pk, "run.seed": "3"})
    values = {each["name"]: each.attributes.get("value") for each in elements(page, "input[name]")}
    assert values["rollout.group_size"] == "4" and values["run.seed"] == "3"
    assert "for a quick look" in text_of(page) and "with 3 changes from plan_path_duo" in text_of(page)
    assert ada.get(NEW, {"template": 10**9}).status_code == 404
    Template.objects.update(preset="gone")
    broken = ada.get(NEW, {"template": small.pk})
    assert broken.status_code == 400 and "no preset" in broken.content.decode()


def test_deleted_by_those_who_may(ada: Client, small: Template, stranger: User) -> None:
    eve = Client()
    eve.force_login(stranger)
    address, api = f"/experiments/templates/{small.pk}/delete/", f"/api/v1/templates/{small.pk}/"
    assert eve.get(NEW, {"template": small.pk}).status_code == 404
    assert eve.get("/api/v1/templates/").json() == {"results": []}
    Membership.objects.create(project=small.project, user=stranger, level=Membership.Level.VIEWER)
    assert "for a quick look" in eve.get(NEW).content.decode()
    assert "Delete the template" not in eve.get(NEW).content.decode()
    assert eve.post(address).status_code == 403 and eve.delete(api).status_code == 403
    assert eve.get(api).json()["overrides"] == small.overrides
    with pytest.raises(PermissionDenied):
        template_save(stranger, small.project, "mine", "plan_path_duo", {})
    assert ada.post(address).status_code == 302
    assert not Template.objects.exists()


def test_hostile_values_are_refused(user: User, project: Project) -> None:
    for changes in ({"algorithm.kl_coefficient": float("inf")}, {"run.description": "a\0b"}):
        with pytest.raises(ConfigError):
            template_save(user, project, "x", "plan_path_duo", changes)
    with pytest.raises(ConfigError):
        template_save(user, project, "x\0", "plan_path_duo", {})


def test_something_is_said_of_every_preset() -> None:
    assert all(expected_of(name) for name in preset_names())


def ended(like: Run, seconds: int, success: float | None, **changes: object) -> Run:
    """A finished run of the preset with these changes that took so long."""
    config = load_config("plan_path_duo", {path.replace("__", "."): value for path, value in changes.items()})
    tree, start = config.model_dump(mode="json"), timezone.now()
    headline = {} if success is None else {"eval/success": success}
    return Run.objects.create(
        project=like.project, owner=like.owner, preset=like.preset, config=tree, family=family_of(tree),
        iterations=config.run.iterations, state="finished", headline=headline, started_at=start,
        ended_at=start + timedelta(seconds=seconds),
    )  # fmt: skip


def test_medians_are_of_runs_that_differ_by_seed_alone(run: Run, user: User, stranger: User) -> None:
    def seen(who: User) -> object:
        return next(each for each in gallery(who) if each.name == "plan_path_duo").seen

    assert seen(user) is None  # the one that waits has not ended
    ended(run, 60, 0.9)
    ended(run, 100, 0.7, run__seed=1)
    ended(run, 80, None, run__seed=2)
    ended(run, 5, 0.1, run__iterations=3)
    assert seen(user) == PresetSeen(runs=3, seconds=80.0, value=0.8)
    assert seen(stranger) is None


def test_page_and_api_say_it(ada: Client, run: Run) -> None:
    ended(run, 90, 0.95)
    html = ada.get("/experiments/new/").content.decode()
    expected = expected_of("plan_path_duo")
    assert expected and expected.purpose in html and "takes 1 to 2 minutes on two CPU cores" in html
    assert "here: 1 min 30 s, success 0.95 (median of 1 run)" in text_of(html)
    found = ada.get("/api/v1/presets/").json()["results"][0]
    assert found["expected"]["time"] == expected.time and found["seen"]["runs"] == 1
    assert found["config"]["rollout"]["tasks"] == 48 and "[team" in found["toml"]


def test_presets_are_grouped_by_agents_and_task_in_one_order(user: User) -> None:
    told = groups(gallery(user), "", "plan_path_duo")
    assert [group.agents for group in told] == ["language_models", "networks"]
    assert [task.name for group in told for task in group.tasks if task.chosen] == ["Plan-Path"]
    tasks = ["Plan-Path", "Puzzles", "Sums and programs", "Games", "On GPUs"]
    assert [task.name for task in told[0].tasks] == tasks
    assert [task.name for task in told[1].tasks] == ["Toys", "Particles (MPE)", "Classic games", "Memory"]
    listed = [preset["name"] for group in told for task in group.tasks for preset in task.presets]
    assert listed == preset_names(), "page, API and command have one order"
    assert all(config_kind(read_preset(name)).config is MarlConfig for name in names_of(told[1]))


def names_of(group: PresetGroup) -> list[str]:
    return [preset["name"] for task in group.tasks for preset in task.presets]


def test_presets_are_found_by_words_of_page_and_api(ada: Client) -> None:
    for wanted, names in (
        ("Memory LSTM", ["recall_mappo_lstm", "recall_ippo_lstm"]),
        ("puzzles boxes", []),
        ("small networks toys", ["spread_toy", "foraging_mappo", "hetero_mappo"]),
    ):
        answer = ada.get("/api/v1/presets/", {"find": wanted}).json()["results"]
        assert [each["name"] for each in answer] == names
        assert all(each["agents"] == "networks" for each in answer)
        page = ada.get("/experiments/new/", {"find": wanted})
        shown = [each.text for each in elements(page, ".presets strong") if "hidden" not in each.above[-2]]
        assert shown == names
        assert text_of(page, "[data-found]") == f"{len(names)} found"


def test_the_words_stay_in_the_address_while_the_form_is_filled_in(ada: Client) -> None:
    sent = {"preset": "spread_toy", "find": "toys", "run.seed": "3"}
    answer = ada.post("/experiments/check/", sent, headers={"HX-Request": "true"})
    assert "find=toys" in answer["HX-Replace-Url"] and "run.seed=3" in answer["HX-Replace-Url"]


def test_a_sweep_starts_from_what_the_form_holds(ada: Client, run: Run) -> None:
    html = ada.get("/experiments/new/", {"rollout.group_size": "4", "run.name": "a b"}).content.decode()
    link = html.split("Vary fields in a sweep")[0].rsplit('href="', 1)[1].split('"')[0]
    page = ada.get(link.replace("&amp;", "&")).content.decode()
    assert "rollout.group_size=4" in page and "run.name=&quot;a b&quot;" in page
