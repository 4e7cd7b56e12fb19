"""The new experiment page: from schema to form, from form to run."""

import tomllib

import pytest
from django.test import Client
from django.urls import reverse

from tests.webapp.elements import elements, text_of
from training_core.config.files import load_config, parse_overrides, preset_names
from webapp.experiments.commands import launch_command
from webapp.experiments.fields import config_sections, file_errors
from webapp.experiments.forms import draft_from_query, draft_make
from webapp.experiments.views import preview_context
from webapp.runs.models import Run

NEW = "/experiments/new/"
CHECK = "/experiments/check/"


def posted(client: Client, query: dict[str, str] | None = None) -> dict[str, str]:
    """What a browser would send if nothing were changed."""
    page = client.get(NEW, query)
    ticked = [
        each
        for each in elements(page, "input[name]")
        if each.attributes.get("type") != "checkbox" or "checked" in each
    ]
    chosen = {
        option.above[-1]["name"]: option.text for option in elements(page, "select[name] option[selected]")
    }
    areas = {each["name"]: each.content for each in elements(page, "textarea[name]")}
    return {each["name"]: each.attributes.get("value", "on") for each in ticked} | chosen | areas


def fields_of(preset: str) -> dict:
    tree = load_config(preset).model_dump(mode="json")
    return {each.path: each for section in config_sections(tree, tree, {}) for each in section.walk()}


@pytest.mark.parametrize("preset", preset_names())
def test_form_has_every_field_of_the_config(preset: str) -> None:
    def leaves(tree: dict, prefix: str = "") -> set[str]:
        found = set()
        for name, value in tree.items():
            section = isinstance(value, dict) and value and name not in ("chat_template_kwargs", "members")
            found |= leaves(value, f"{prefix}{name}.") if section else {prefix + name}
        return found

    fields = fields_of(preset)
    assert set(fields) == leaves(load_config(preset).model_dump(mode="json"))
    assert not [path for path, each in fields.items() if not each.help]


def test_kinds_follow_the_schema() -> None:
    fields = fields_of("plan_path_duo")
    kinds = {
        "algorithm.clip_low": "float", "rollout.tasks": "int", "algorithm.leave_one_out": "bool",
        "algorithm.mean_level": "choice", "run.tags": "list", "run.description": "long", "run.name": "text",
        "policies.planner.learner.betas": "list", "team.roles.executor.policy": "choice",
        "team.roles.executor.agent.args": "table",
    }  # fmt: skip
    assert {path: fields[path].kind for path in kinds} == kinds
    assert fields["algorithm.mean_level"].choices == ("group", "batch", "none")
    assert fields["team.roles.executor.policy"].choices == ("planner", "executor")
    assert fields["rollout.tasks"].minimum == 1


def test_errors_are_filed_at_fields() -> None:
    paths = ["policies.planner.learner.betas", "algorithm.clip_low", "rollout.tasks"]
    errors = {"policies.planner.learner.betas.0": "a", "algorithm.at_grpo.clip_low": "b", "nowhere": "c"}
    filed = file_errors(errors, paths)
    assert filed == {"policies.planner.learner.betas": "a", "algorithm.clip_low": "b", "nowhere": "c"}


def test_overrides_of_a_draft_are_what_departs_from_the_preset() -> None:
    base = load_config("plan_path_duo")
    draft = draft_make("plan_path_duo", {"run.seed": base.run.seed, "rollout.group_size": 4})
    assert draft.overrides == {"rollout.group_size": 4} and draft.config.rollout.group_size == 4
    assert draft_make("plan_path_duo", {"rollout.group_size": 1}).errors.keys() == {"rollout.group_size"}
    assert draft_from_query({"preset": "none such", "run.seed": "3"}).overrides == {"run.seed": 3}


def test_settings_without_effect_are_told_beside_the_form() -> None:
    told = preview_context(draft_make("plan_path_duo", {"algorithm.correction_cap": 3.0}), "")["unused"]
    assert told == [
        {
            "path": "algorithm.correction_cap",
            "why": 'correction = "none" leaves it unused',
            "anchor": "f-algorithm-correction_cap",
        }
    ]
    assert preview_context(draft_make("plan_path_duo", {}), "")["unused"] == []
    assert preview_context(draft_make("plan_path_duo", {"rollout.group_size": 1}), "")["unused"] == []


def test_commands_say_the_same_run() -> None:
    overrides = {
        "run.name": "a b", "run.tags": ["x", "y"], "algorithm.clip_low": 0.3, "algorithm.leave_one_out": True,
        "run.description": "true",
    }  # fmt: skip
    import shlex

    words = shlex.split(launch_command("plan_path_duo", overrides).replace("\\\n", " "))
    assert words[:3] == ["troupe", "launch", "plan_path_duo"]
    assert parse_overrides(words[3:]) == overrides


def test_page_shows_defaults_help_and_marks_changes(ada: Client, run: Run) -> None:
    html = ada.get(NEW, {"algorithm.clip_low": "0.3"}).content.decode()
    assert 'name="algorithm.clip_low" value="0.3"' in html
    assert "Lower clip of the probability ratio" in html
    assert elements(html, ".changed[data-field=algorithm.clip_low]")
    assert "algorithm.clip_low=0.3" in html
    assert 'data-section="algorithm" open' in html and 'data-section="rollout" open' not in html


@pytest.mark.parametrize(
    "preset",
    [
        name if name in ("plan_path_duo", "spread_mappo") else pytest.param(name, marks=pytest.mark.extended)
        for name in preset_names()
    ],
)
def test_unchanged_form_is_the_preset(ada: Client, project: object, preset: str) -> None:
    answer = ada.post(NEW, posted(ada, {"preset": preset}))
    run = Run.objects.get()
    assert answer.status_code == 302 and answer.url == reverse("runs:detail", args=[run.pk])
    assert run.config == load_config(preset).model_dump(mode="json")
    assert run.preset == preset and run.state == "queued"


def test_changed_fields_reach_the_run(ada: Client, project: object) -> None:
    form = posted(ada) | {
        "run.name": "mine",
        "run.tags": "a, b",
        "rollout.group_size": "4",
        "policies.planner.learner.betas": "0.8, 0.95",
    }
    form.pop("algorithm.drop_zero_variance")
    assert ada.post(NEW, form).status_code == 302
    run = Run.objects.get()
    assert (run.name, run.tags, run.config["rollout"]["group_size"]) == ("mine", ["a", "b"], 4)
    assert run.config["policies"]["planner"]["learner"]["betas"] == [0.8, 0.95]
    assert run.config["algorithm"]["drop_zero_variance"] is False


def test_errors_stand_at_their_fields_and_nothing_is_launched(ada: Client, project: object) -> None:
    form = posted(ada) | {"rollout.tasks": "many", "resources.environments_per_worker": "1"}
    answer = ada.post(NEW, form)
    html = answer.content.decode()
    assert answer.status_code == 400 and not Run.objects.exists()
    assert "give a whole number" in text_of(html, "[data-field=rollout.tasks] [data-error]")
    assert 'name="rollout.tasks" value="many"' in html and 'aria-invalid="true"' in html


def test_check_answers_with_errors_across_fields(ada: Client, project: object) -> None:
    form = posted(ada)
    assert "Ready to launch" in ada.post(CHECK, form).content.decode()
    html = ada.post(CHECK, form | {"resources.environments_per_worker": "1"}).content.decode()
    assert "resources.environments_per_worker" in html and "cannot hold rollout.tasks" in html
    assert "Ready to launch" not in html


def test_preview_toml_is_the_run(ada: Client, project: object) -> None:
    html = ada.post(CHECK, posted(ada) | {"rollout.group_size": "4"}).content.decode()
    assert tomllib.loads(elements(html, "#toml")[0].content)["rollout"] == {"group_size": 4}


def test_run_again_starts_from_the_run(ada: Client, run: Run) -> None:
    config = run.config
    config["run"]["seed"] = 7
    Run.objects.filter(pk=run.pk).update(config=config)
    assert 'name="run.seed" value="7"' in ada.get(NEW, {"from": run.pk}).content.decode()


def test_config_and_run_again_show_the_present_name(ada: Client, run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(name="Demonstration", tags=["demonstration"])
    page = ada.get(f"/runs/{run.pk}/config/").content.decode()
    assert "name = &quot;Demonstration&quot;" in page and "tags = [&quot;demonstration&quot;]" in page
    assert "Nothing: this is plan_path_duo unchanged" in page and "run.name=Demonstration" in page
    clone = ada.get(NEW, {"from": run.pk}).content.decode()
    assert 'name="run.name" value="Demonstration"' in clone
    assert "Ready to launch: plan_path_duo unchanged" in clone


def test_a_clone_inherits_only_tags_that_the_user_set(ada: Client, run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(tags=["baseline", "demonstration"])
    clone = ada.get(NEW, {"from": run.pk}).content.decode()
    assert 'name="run.tags" value="baseline"' in clone
    page = ada.get(f"/runs/{run.pk}/config/").content.decode()
    command = "".join(elements(page, "#launch")[0].text.split())
    assert "run.tags=" in command and "baseline" in command and "demonstration" not in command


def test_nobody_launches_where_they_may_not(viewer: Client, ada: Client, run: Run) -> None:
    form = posted(ada) | {"project": run.project.slug}
    before = Run.objects.count()
    assert viewer.post(NEW, form).status_code == 400
    assert Run.objects.count() == before
    assert ada.post(NEW, form | {"project": "elsewhere"}).status_code == 400
    assert ada.post(NEW, form | {"preset": "gone"}).status_code == 400


@pytest.mark.parametrize(
    "query",
    [
        {"team.roles": "3"},
        {"team.roles.planner": "3"},
        {"team.roles.critic": "3"},
        {"team.turn_order": "3"},
        {"team.roles": "{}"},
        {"team.roles": "{critic = {}}"},
        {"team.turn_order": "[3, {a = 1}]"},
        {"policies.planner": "[]"},
        {"policies.planner.learner.learning_rate.x": "1"},
        {"environment.type": "nowhere"},
        {"algorithm.type": "{a = 1}"},
        {"a.b": "1", "": "x", ".": "y", "team..roles": "z"},
    ],
)
def test_an_address_that_makes_no_sense_is_told_and_drawn(
    ada: Client, project: object, query: dict[str, str]
) -> None:
    answer = ada.get(NEW, query)
    html = answer.content.decode()
    assert answer.status_code in (200, 400) and "Ready to launch" not in html and "to fix" in html


AGENT = {"workflow.type": "agent"}


def test_arguments_of_any_name_are_written_as_toml(ada: Client, project: object) -> None:
    shown = {**AGENT, "workflow.args.word": "up", "workflow.args.most": "3"}
    (area,) = elements(ada.get(NEW, shown), "textarea[name=workflow.args]")
    assert tomllib.loads(area.content) == {"word": "up", "most": 3}
    written = {"workflow.args": 'word = "down"\nmost = 4\n[deeper]\nshares = [0.5, 1.5]'}
    assert ada.post(NEW, posted(ada, shown) | written).status_code == 302
    args = Run.objects.get().config["workflow"]["args"]
    assert args == {"word": "down", "most": 4, "deeper": {"shares": [0.5, 1.5]}}


def test_arguments_that_are_no_toml_are_told_and_kept(ada: Client, project: object) -> None:
    for field in ("workflow.args", "team.roles.planner.agent.args"):
        answer = ada.post(NEW, posted(ada, AGENT) | {field: "word: up"})
        html = answer.content.decode()
        assert answer.status_code == 400 and not Run.objects.exists()
        assert text_of(html, f"textarea[name={field}]") == "word: up"
        assert "as in TOML" in text_of(html, f"[data-field={field}] [data-error]")
