"""The preset gallery: what to expect, and what was seen here."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from tests.webapp.elements import elements, text_of
from training_core.config.files import expected_of, load_config, preset_names, read_preset
from training_core.config.kinds import config_kind
from training_core.config.marl import MarlConfig
from troupe_client.documents.experiments import PresetSeen
from webapp.accounts.models import User
from webapp.experiments.gallery import PresetGroup, gallery, groups
from webapp.runs.configs import family_of
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db


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


def test_page_and_api_say_it(client: Client, run: Run, user: User) -> None:
    client.force_login(user)
    ended(run, 90, 0.95)
    html = client.get("/experiments/new/").content.decode()
    expected = expected_of("plan_path_duo")
    assert expected and expected.purpose in html and "takes 1 to 2 minutes on two CPU cores" in html
    assert "here: 1 min 30 s, success 0.95 (median of 1 run)" in text_of(html)
    found = client.get("/api/v1/presets/").json()["results"][0]
    assert found["expected"]["time"] == expected.time and found["seen"]["runs"] == 1
    assert found["config"]["rollout"]["tasks"] == 48 and "[team" in found["toml"]


def test_presets_are_grouped_by_agents_and_task_in_one_order(user: User) -> None:
    told = groups(gallery(user), "", "plan_path_duo")
    assert [group.agents for group in told] == ["language_models", "networks"]
    assert [task.name for group in told for task in group.tasks if task.chosen] == ["Plan-Path"]
    assert [task.name for task in told[0].tasks] == ["Plan-Path", "Puzzles", "Sums and programs", "On GPUs"]
    assert [task.name for task in told[1].tasks] == ["Toys", "Particles (MPE)", "Memory"]
    listed = [preset["name"] for group in told for task in group.tasks for preset in task.presets]
    assert listed == preset_names(), "page, API and command have one order"
    assert all(config_kind(read_preset(name)).config is MarlConfig for name in names_of(told[1]))


def names_of(group: PresetGroup) -> list[str]:
    return [preset["name"] for task in group.tasks for preset in task.presets]


def test_presets_are_found_by_words_of_page_and_api(client: Client, user: User) -> None:
    client.force_login(user)
    for wanted, names in (
        ("Memory LSTM", ["recall_mappo_lstm", "recall_ippo_lstm"]),
        ("puzzles boxes", []),
        ("small networks toys", ["spread_toy", "foraging_mappo", "hetero_mappo"]),
    ):
        answer = client.get("/api/v1/presets/", {"find": wanted}).json()["results"]
        assert [each["name"] for each in answer] == names
        assert all(each["agents"] == "networks" for each in answer)
        page = client.get("/experiments/new/", {"find": wanted})
        shown = [each.text for each in elements(page, ".presets strong") if "hidden" not in each.above[-2]]
        assert shown == names
        assert text_of(page, "[data-found]") == f"{len(names)} found"


def test_the_words_stay_in_the_address_while_the_form_is_filled_in(client: Client, user: User) -> None:
    client.force_login(user)
    sent = {"preset": "spread_toy", "find": "toys", "run.seed": "3"}
    answer = client.post("/experiments/check/", sent, headers={"HX-Request": "true"})
    assert "find=toys" in answer["HX-Replace-Url"] and "run.seed=3" in answer["HX-Replace-Url"]


def test_a_sweep_starts_from_what_the_form_holds(client: Client, user: User, run: Run) -> None:
    client.force_login(user)
    html = client.get("/experiments/new/", {"rollout.group_size": "4", "run.name": "a b"}).content.decode()
    link = html.split("Vary fields in a sweep")[0].rsplit('href="', 1)[1].split('"')[0]
    page = client.get(link.replace("&amp;", "&")).content.decode()
    assert "rollout.group_size=4" in page and "run.name=&quot;a b&quot;" in page
